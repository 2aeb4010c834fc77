"""`Agent` is data: what it says to people who expect methods."""

import copy
import pickle

import pytest

from wakeful import Agent


@pytest.mark.parametrize("method", ["run", "run_sync", "run_stream"])
def test_an_agent_says_that_a_client_runs_it(method: str) -> None:
    agent = Agent(id="clerk")
    assert not hasattr(agent, method)
    with pytest.raises(AttributeError) as raised:
        getattr(agent, method)
    assert str(raised.value) == (
        f"agent 'clerk' is data and has no {method!r}: run it with a client, as in await client.run('clerk', 'hello')"
    )


def test_other_attributes_of_an_agent_are_missing_as_usual_and_it_can_be_copied() -> None:
    agent = Agent(id="clerk", instructions="Be brief.")
    with pytest.raises(AttributeError, match="'Agent' object has no attribute 'runs'"):
        _ = agent.runs  # type: ignore[attr-defined]
    assert agent == copy.deepcopy(agent) == pickle.loads(pickle.dumps(agent)) == agent.model_copy()
