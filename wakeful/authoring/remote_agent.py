"""`RemoteAgent`: an agent that another service runs, as a delegate, a background agent, a handoff target or alone."""

from collections.abc import Mapping

from wakeful.authoring.agent import Agent
from wakeful.contract.remote import DEFAULT_POLL_SECONDS, DEFAULT_REMOTE_TIMEOUT_SECONDS, Endpoint, Secret


class RemoteAgent(Agent):
    """An agent behind an A2A endpoint. A run of it is durable: it submits one task and awaits it for days if need be.

    Args:
        url: the address of the service.
        description: what it is for, as other agents read it.
        target: which of the service's agents, if it has several.
        token: where workers read the bearer token: `Secret(env="PARTNER_TOKEN")`.
        headers: more headers with secret values.
        timeout: seconds that one answer may take, without the time in which people decide.
        poll_interval: seconds after which a worker first asks for the state of the remote task.
        idempotent: the service recognises a message that is sent twice, so a lost submission is sent again.
    """

    def __init__(
        self,
        *,
        id: str,
        url: str,
        description: str = "",
        target: str | None = None,
        token: Secret | None = None,
        headers: Mapping[str, Secret] | None = None,
        timeout: float = DEFAULT_REMOTE_TIMEOUT_SECONDS,
        poll_interval: float = DEFAULT_POLL_SECONDS,
        idempotent: bool = False,
    ) -> None:
        endpoint = Endpoint(
            url=url,
            target=target,
            token=token,
            headers=dict(headers or {}),
            timeout_seconds=timeout,
            poll_seconds=poll_interval,
            idempotent=idempotent,
        )
        super().__init__(id=id, description=description, endpoint=endpoint)
