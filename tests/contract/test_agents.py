"""A run refers to its agent by digest."""

from wakeful.contract.agents import ModelBinding, Resolution, ResolvedAgent, RetryPolicy

AGENT = ResolvedAgent(agent_id="assistant", model=ModelBinding(id="default", provider="scripted", name="model-1"))


def test_the_digest_of_an_agent_depends_on_everything_in_it() -> None:
    """I-12"""
    changed = AGENT.model_copy(update={"instructions": "Be brief."})
    assert (AGENT.digest(), changed.digest()) == (
        "2e6fc7672a91a62feb528941a780c2d9",
        "80ee18d5074cdbef7a9454104fb2fdba",
    )


def test_a_resolution_without_a_revision_has_the_first() -> None:
    recorded = Resolution(agent=AGENT).model_dump(exclude={"revision"})
    assert Resolution.model_validate(recorded).revision == 1


def test_a_recorded_retry_policy_ignores_settings_of_a_newer_release() -> None:
    model = ModelBinding(id="m", provider="p", name="n")
    policy = RetryPolicy(patience_secs=60)
    agent = ResolvedAgent(agent_id="a", model=model, retry=policy)
    written = agent.model_dump(mode="json")
    written["retry"]["of_tomorrow"] = 1
    assert ResolvedAgent.model_validate(written) == agent
