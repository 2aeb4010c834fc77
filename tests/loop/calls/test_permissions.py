"""Permission rules: commands that gates check have those of the thread and the run, and a decision can add one."""

import pytest
from pydantic import JsonValue

from tests.loop.children import PARENT, delegate_call
from tests.loop.driving import (
    LOOK,
    REQUEST,
    THREAD,
    TICK,
    Driver,
    after_continue_as_new,
    asks,
    asks_gated,
    awaiting_decisions,
    call,
    make_agent,
    make_ticket,
    ok,
    pending_with,
    reject,
    resume,
)
from wakeful.contract.agents import ResolvedAgent, ToolMode
from wakeful.contract.decisions import Decision, ResumeMode
from wakeful.contract.gates import Block, Suspend
from wakeful.contract.hooks import HookEffects, Phase, PluginBinding
from wakeful.contract.messages import InputMessage, ToolCall
from wakeful.contract.permissions import Behavior, PermissionPolicy, Rule
from wakeful.contract.requests import Fork, RunRequest
from wakeful.contract.runs import Blocked, reason_code
from wakeful.contract.settings import RunSettings
from wakeful.contract.tools import ToolOutcome, ToolResult
from wakeful.loop.machine.commands import CallTool, StartChild, StartTask
from wakeful.loop.machine.facts import MessagesSubmitted, RevocationRequested, ToolReturned
from wakeful.loop.machine.revisions import HOOKS_ANSWER_NO_REQUEST, REVISION
from wakeful.loop.machine.stages import Done
from wakeful.loop.machine.state import KEPT_RULES


def rule(tool: str, behavior: str = "allow") -> Rule:
    return Rule(tool=tool, behavior=Behavior(behavior))


def always(decision: Decision) -> Decision:
    return decision.model_copy(update={"always": True})


def remembering(driver: Driver, call_id: str, pattern: str) -> None:
    driver.model(asks(call(call_id)))
    driver.tool(call_id, pending_with(make_ticket(f"s-{call_id}", remember=pattern)))
    driver.decide(always(resume(call_id)))


def test_a_decision_with_always_adds_a_rule_to_the_thread_that_outlives_the_run() -> None:
    driver = Driver(request=THREAD)
    remembering(driver, "c1", "look(at = Paris)")
    assert driver.tool_commands("c1")[-1].permissions == (rule("look(at = Paris)"),)
    driver.cancel()
    driver.tool_cancelled("c1")
    driver.submit("m1")
    driver.resolve()
    assert driver.inference().permissions == (rule("look(at = Paris)"),)
    assert after_continue_as_new(driver.thread).permissions == driver.thread.permissions


def test_a_rule_of_the_run_overrides_the_threads_for_the_same_tool_and_ends_with_the_run() -> None:
    request = THREAD.model_copy(update={"permissions": (rule("look", "deny"), rule("pay", "ask"))})
    driver = Driver(request=request)
    assert driver.inference().permissions == (rule("look", "deny"), rule("pay", "ask"))
    remembering(driver, "c1", "look")
    assert driver.tool_commands("c1")[-1].permissions == (rule("look", "deny"), rule("pay", "ask"))
    assert after_continue_as_new(driver.thread).current.permissions == driver.thread.current.permissions
    driver.cancel()
    driver.tool_cancelled("c1")
    driver.submit("m1")
    driver.resolve()
    assert driver.inference().permissions == (rule("look"),)


def test_a_decision_with_always_answers_what_the_request_asks_about_until_a_later_one_asks_again() -> None:
    ask, later = rule("look", "ask"), (InputMessage(id="m1", content="Look again."),)
    driver = Driver(request=THREAD.model_copy(update={"permissions": (ask,)}))
    assert (driver.inference().permissions, driver.inference().questions) == ((ask,), ((ask,),))
    remembering(driver, "c1", "look")
    command = driver.tool_commands("c1")[-1]
    assert (command.permissions, command.questions) == ((rule("look"),), ())
    assert after_continue_as_new(driver.thread).rules == (rule("look"),)
    driver.cancel()
    driver.tool_cancelled("c1")
    driver.feed(MessagesSubmitted(later, settings=RunSettings(permissions=(ask,))))
    driver.resolve()
    assert (driver.inference().permissions, driver.inference().questions) == ((ask,), ((ask,),))


def test_a_rule_that_was_added_with_always_and_is_revoked_is_asked_about_again() -> None:
    driver = Driver(request=THREAD.model_copy(update={"permissions": (rule("look", "ask"),)}))
    remembering(driver, "c1", "look")
    driver.feed(RevocationRequested(("look",)))
    assert driver.thread.rules == (rule("look", "ask"),)


@pytest.mark.parametrize("allowed", ["pay", "*"])
def test_a_rule_that_a_hook_adds_answers_nothing_that_the_request_denies_or_asks_about(allowed: str) -> None:
    """B-803"""
    given = (rule("look", "deny"), rule("pay", "ask"))
    driver = Driver(request=REQUEST.model_copy(update={"permissions": given}))
    effects = HookEffects(permissions=(rule("look"), rule(allowed)))
    driver.model(asks(call("c1")).model_copy(update={"effects": effects}))
    command = driver.tool_commands("c1")[-1]
    assert set(given) <= set(command.permissions)
    assert (rule("pay", "ask"),) in command.questions
    assert driver.thread.passed_on == given


def test_a_rule_that_a_hook_adds_replaces_one_of_the_request_that_asks_in_runs_of_an_older_revision() -> None:
    older = HOOKS_ANSWER_NO_REQUEST - 1
    driver = Driver(request=REQUEST.model_copy(update={"permissions": (rule("pay", "ask"),)}), revision=older)
    effects = HookEffects(permissions=(rule("pay"),))
    driver.model(asks(call("c1")).model_copy(update={"effects": effects}))
    command = driver.tool_commands("c1")[-1]
    assert (command.permissions, command.questions) == ((rule("pay"),), ())


def test_what_a_hook_allows_holds_beside_the_request_also_in_a_fork() -> None:
    driver = Driver(request=REQUEST.model_copy(update={"permissions": (rule("pay", "ask"),)}))
    driver.model(asks(call("c1")).model_copy(update={"effects": HookEffects(permissions=(rule("*"),))}))
    kept = driver.thread.fork_point.carryover
    assert (kept.run_permissions, kept.run_requested) == ((rule("pay", "ask"), rule("*")), (rule("pay", "ask"),))
    fork = Fork(thread_id="t1", run_id="r1", step=1, messages=1)
    forked = Driver(request=RunRequest(agent_id="assistant", input="Go on.", fork=fork), carryover=kept)
    assert forked.inference().questions == ((rule("pay", "ask"),),)


def test_of_too_many_rules_those_that_allow_are_dropped_first() -> None:
    """B-803: a hook that adds many rules does not lift those of the request."""
    deny, ask = rule("look", "deny"), rule("pay", "ask")
    driver = Driver(request=REQUEST.model_copy(update={"permissions": (deny, ask)}))
    many = tuple(rule(f"tool_{number}") for number in range(KEPT_RULES))
    driver.model(asks(call("c1")), HookEffects(permissions=many))
    assert driver.tool_commands("c1")[-1].permissions == (deny, ask, *many[2:])


def test_a_thread_keeps_each_rule_once_and_a_limited_number() -> None:
    driver = Driver(make_agent(max_rounds=0))
    for number in range(KEPT_RULES + 1):
        remembering(driver, f"c{number}", f"tool_{number}")
        driver.tool(f"c{number}", ok("fine"))
    remembering(driver, "again", "tool_7")
    kept = driver.thread.permissions
    assert (len(kept), kept[0], kept[-1]) == (KEPT_RULES, rule("tool_1"), rule("tool_7"))


@pytest.mark.parametrize(
    ("decision", "reason"),
    [
        (always(reject("c1")), "call 'c1': 'always' is only allowed with the action 'resume'"),
        (
            always(resume("c1")),
            "call 'c1': its ticket names no rule to remember, so 'always' is not possible",
        ),
    ],
)
def test_always_requires_a_resume_and_a_rule_in_the_ticket(decision: Decision, reason: str) -> None:
    driver = awaiting_decisions()
    before = driver.thread
    driver.decide(decision)
    assert (driver.refusal_reasons, driver.thread.stage, driver.thread.permissions) == ([reason], before.stage, ())


@pytest.mark.parametrize(
    ("agent", "permissions", "is_told"),
    [
        (make_agent(), (), False),
        (make_agent(gates=("office_hours",)), (), True),
        (make_agent().model_copy(update={"permissions": PermissionPolicy()}), (), True),
        (make_agent(), (rule("look", "deny"),), True),
    ],
    ids=["no gates", "gates", "permissions", "rules of the run"],
)
def test_a_tool_call_has_the_agent_whose_gates_run_before_it(
    agent: ResolvedAgent, permissions: tuple[Rule, ...], is_told: bool
) -> None:
    driver = Driver(agent, request=REQUEST.model_copy(update={"permissions": permissions}))
    driver.model(asks(call("c1")))
    (run,) = driver.tool_commands("c1")
    assert (run.agent, run.permissions) == (agent if is_told else None, permissions)


def resumed_with(
    agent: ResolvedAgent,
    asked: ToolCall,
    arguments: JsonValue,
    *,
    mode: str = "replay_tool_call",
    denied: PermissionPolicy | None = None,
    revision: int = REVISION,
) -> Driver:
    """A run of an agent that denies "secret" in any call; its call `c1` was suspended, and is resumed with these."""
    agent = agent.model_copy(update={"permissions": denied or NO_SECRETS})
    driver = Driver(agent, request=REQUEST, revision=revision)
    driver.model(asks_gated(asked, c1=Suspend(ticket=make_ticket("s1", mode=ResumeMode(mode)))))
    edited = {"arguments": arguments} if mode == "replay_tool_call" else {"result": arguments}
    driver.decide(resume("c1").model_copy(update=edited))
    return driver


@pytest.mark.parametrize(("revision", "judged"), [(REVISION, 9), (3, 29)], ids=["now", "before"])
def test_what_rules_search_in_one_workflow_task_is_limited(revision: int, judged: int) -> None:
    """A call that they do not reach is denied, also if they would not match it."""
    costly = tuple(rule(f'pick(of =~ "[ab]*a[ab]{{60}}!{number}")', "deny") for number in range(4))
    policy = PermissionPolicy(default_behavior=Behavior.ALLOW, rules=costly)
    calls = [call(f"c{number}", "pick", {"of": "ab" * 20_000}) for number in range(40)]
    agent = make_agent(ToolMode.PARALLEL).model_copy(update={"permissions": policy, "max_parallel_calls": 40})
    driver = Driver(agent, request=REQUEST, revision=revision)
    suspended = {each.id: Suspend(ticket=make_ticket(f"s-{each.id}")) for each in calls}
    driver.model(asks_gated(*calls, **suspended))
    allowed = 0
    while driver.decide(resume(f"c{allowed}")).thread.batch is not None:
        allowed, driver.now = allowed + 1, driver.now - TICK
    assert allowed == judged


NO_SECRETS = PermissionPolicy(default_behavior=Behavior.ALLOW, rules=(rule("/./(*secret*)", "deny"),))
DENIAL = "Tool {!r} denied by permission rules"
DENIED = f"blocked:{DENIAL}"
FOREIGN = make_agent().model_copy(update={"tools": (LOOK.model_copy(update={"task_queue": "elsewhere"}),)})
UNJUDGED = pytest.mark.parametrize(
    ("agent", "asked"),
    [
        (PARENT, delegate_call("c1")),
        (PARENT, call("c1", "dig")),
        (PARENT, call("c1", "pick")),
        (FOREIGN, call("c1")),
    ],
    ids=["runtime", "background", "frontend", "another task queue"],
)


@UNJUDGED
@pytest.mark.parametrize("mode", ["replay_tool_call", "pass_decision_to_tool"])
def test_a_rule_that_denies_holds_for_the_arguments_of_a_decision_where_no_activity_checks_them(
    agent: ResolvedAgent, asked: ToolCall, mode: str
) -> None:
    """B-805"""
    driver = resumed_with(agent, asked, {"prompt": "the secret"}, mode=mode)
    assert driver.result.status_reason == DENIED.format(asked.name)
    assert driver.tool_results == [("c1", f"Tool {asked.name!r} denied by permission rules")]
    assert driver.event_types.count("tool_call_resumed") == 1
    assert [command for command in driver.commands if isinstance(command, StartChild | StartTask | CallTool)] == []


@pytest.mark.parametrize(("revision", "is_denied"), [(REVISION, True), (2, False)], ids=["now", "before"])
def test_a_number_in_a_rule_is_compared_for_the_arguments_of_a_decision(revision: int, is_denied: bool) -> None:
    """Runs of an earlier revision read the condition as a glob, which these arguments do not match."""
    large = PermissionPolicy(default_behavior=Behavior.ALLOW, rules=(rule("dig(depth > 10)", "deny"),))
    driver = resumed_with(PARENT, call("c1", "dig"), {"depth": 11}, denied=large, revision=revision)
    assert isinstance(driver.thread.stage, Done) is is_denied
    if is_denied:
        assert driver.result.termination == Blocked(value=DENIAL.format("dig"), rule="dig(depth > 10)")


def test_a_denial_in_the_loop_has_the_message_of_its_rule() -> None:
    denying = Rule(tool="dig", behavior="deny", message="No deeper than {depth} m.")
    policy = PermissionPolicy(default_behavior=Behavior.ALLOW, rules=(denying,))
    driver = resumed_with(PARENT, call("c1", "dig"), {"depth": 11}, denied=policy)
    assert driver.result.status_reason == "blocked:No deeper than 11 m."
    assert driver.tool_results == [("c1", "No deeper than 11 m.")]


def test_a_denial_in_a_run_of_an_earlier_revision_is_recorded_as_it_was() -> None:
    driver = resumed_with(PARENT, call("c1", "dig"), {"depth": "secret"}, revision=2)
    assert driver.result.termination == Blocked(value=DENIAL.format("dig"))


@pytest.mark.parametrize("at_once", [True, False], ids=["with the answer", "just before the call"])
def test_a_run_that_a_rule_ends_says_which(at_once: bool) -> None:
    """B-808"""
    driver = Driver(make_agent(gates=("modest",)))
    denial = DENIAL.format("look")
    if at_once:
        driver.model(asks_gated(call("c1"), c1=Block(reason=denial, rule="look")))
    else:
        driver.model(asks(call("c1")))
        outcome = ToolOutcome(result=ToolResult.rejected("look", denial), blocked=denial, rule="look")
        driver.feed(ToolReturned(driver.tool_commands("c1")[-1].id, outcome))
    assert driver.result.termination == Blocked(value=denial, rule="look")
    assert reason_code(driver.result.termination) == "rule"


@UNJUDGED
def test_other_arguments_of_a_decision_are_used(agent: ResolvedAgent, asked: ToolCall) -> None:
    driver = resumed_with(agent, asked, {"prompt": "the weather"})
    assert (driver.refusal_reasons, isinstance(driver.thread.stage, Done)) == ([], False)


@pytest.mark.parametrize(
    ("pattern", "is_denied"),
    [
        ('/./($tenant = "acme", $user = "ann", $metadata.order = "7")', True),
        ('/./($tenant = "beta")', False),
        ('/./($user != "ann")', False),
    ],
)
def test_rules_about_tenant_user_and_metadata_hold_where_no_activity_checks_them(pattern: str, is_denied: bool) -> None:
    """B-664"""
    policy = PermissionPolicy(default_behavior=Behavior.ALLOW, rules=(rule(pattern, "deny"),))
    agent = PARENT.model_copy(update={"permissions": policy})
    request = REQUEST.model_copy(update={"tenant": "acme", "user": "ann", "metadata": {"order": 7}})
    driver = Driver(agent, request=request)
    driver.model(asks_gated(delegate_call("c1"), c1=Suspend(ticket=make_ticket("s1"))))
    driver.decide(resume("c1"))
    assert isinstance(driver.thread.stage, Done) is is_denied


def test_a_rule_that_a_hook_added_since_holds_for_a_resumed_call_without_an_activity() -> None:
    driver = Driver(PARENT)
    ticket = Suspend(ticket=make_ticket("s1"))
    driver.model(asks_gated(call("c0"), delegate_call("c1"), c1=ticket))
    driver.tool("c0", ok("done"), HookEffects(permissions=(rule("agent_run_*", "deny"),)))
    driver.decide(resume("c1"))
    assert driver.result.status_reason == DENIED.format("agent_run_researcher")


@pytest.mark.parametrize(
    "guarded",
    [
        {"gates": ("modest",)},
        {"plugins": (PluginBinding(id="guard", phases=(Phase.TOOL_GATE,)),)},
    ],
    ids=["gates", "tool_gate hooks"],
)
@pytest.mark.parametrize("name", ["agent_run_researcher", "dig", "pick"])
def test_arguments_that_no_gate_could_check_are_refused(guarded: dict[str, object], name: str) -> None:
    """B-805"""
    agent = PARENT.model_copy(update=guarded)
    driver = resumed_with(agent, call("c1", name, {"prompt": "Go."}), {"prompt": "the weather"})
    assert driver.refusal_reasons == [
        f"call 'c1': tool {name!r} runs without an activity, so the agent's gates could not check other arguments: "
        "resume the call without 'arguments', or cancel it"
    ]
    driver.decide(resume("c1"))
    assert len(driver.refusal_reasons) == 1


def test_gates_check_other_arguments_in_the_activity_of_the_call() -> None:
    agent = make_agent(gates=("modest",))
    driver = resumed_with(agent, call("c1"), {"at": "Rome"})
    assert driver.tool_commands("c1")[-1].call.arguments == {"at": "Rome"}
