"""What the workers that served a thread know about themselves and the namespace: history records it.

The worker that resolves the agent says it with the agent. A run that ends before, because its agent is unknown, its
request is malformed or it was cancelled, asks for it in a local activity: it must not set a search attribute that the
namespace does not have.
"""

from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError

from wakeful.contract import ids, names
from wakeful.contract.agents import HistoryBudget, WorkerDescription
from wakeful.telemetry.log_causes import cause_of
from wakeful_workflows.history_estimate import LOCAL_ACTIVITY, HistoryEstimate
from wakeful_workflows.run_log import logger
from wakeful_workflows.tools import LOCAL_TIMEOUT_SECONDS, Handle, start_local

_RETRIES = RetryPolicy(initial_interval=timedelta(milliseconds=200), maximum_attempts=3)


class WorkerFacts:
    """The facts as far as they are known, and the local activity that asks for them."""

    def __init__(self, history: HistoryEstimate) -> None:
        self.search_attributes: tuple[str, ...] | None = None
        """Those of ours that the namespace has; None before a worker has said."""
        self.budget = HistoryBudget()
        self.revision = 0
        """The revision of the loop that it has, for a run whose agent was never resolved."""
        self._history = history
        self._asking: Handle | None = None
        self._has_news = False

    @property
    def is_asking(self) -> bool:
        return self._asking is not None

    def learn(self, search_attributes: tuple[str, ...] | None, budget: HistoryBudget) -> None:
        self.search_attributes, self.budget = search_attributes, budget

    def ask(self) -> None:
        """Ask the worker that handles this workflow task."""
        if self.search_attributes is not None or self._asking is not None:
            return
        self._asking = start_local(
            names.ACTIVITY_DESCRIBE_WORKER,
            id=ids.work_id(ids.DescribeWorker()),
            timeout=timedelta(seconds=LOCAL_TIMEOUT_SECONDS),
            retries=_RETRIES,
            summary="find the search attributes that the namespace has",
        )
        self._history.add(LOCAL_ACTIVITY)
        self._asking.add_done_callback(self._on_answer)

    def take_news(self) -> bool:
        """Whether an answer has come since the last call."""
        has_news, self._has_news = self._has_news, False
        return has_news

    @property
    def has_news(self) -> bool:
        return self._has_news

    def _on_answer(self, asking: Handle) -> None:
        self._asking, self._has_news = None, True
        try:
            returned = asking.result()
            self._history.add_result(returned)
            described: WorkerDescription = workflow.payload_converter().from_payload(
                returned.payload, WorkerDescription
            )
            self.learn(described.search_attributes, described.budget)
            self.revision = described.revision
        except Exception as error:  # whatever it is: an end that no list shows is better than a run that does not end
            reason = error.cause or error if isinstance(error, ActivityError) else error
            logger.warning("the run sets no search attributes", extra={"cause": cause_of(reason)})
            self.learn((), self.budget)
