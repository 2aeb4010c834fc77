"""A warning of patterns in JSON schemas that programs bring, and that are not checked."""

import logging

from pydantic import JsonValue

from wakeful.contract.schema_patterns import unusable_patterns

_logger = logging.getLogger("wakeful")


def warn_of_patterns(schema: JsonValue, **brought_by: str) -> None:
    """Log each pattern of the schema, or of a list of schemas, that is ignored, with who brought it."""
    for problem in unusable_patterns(schema):
        _logger.warning("a pattern of a JSON schema is ignored", extra={"problem": problem, **brought_by})
