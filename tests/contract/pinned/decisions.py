"""Pins of `wakeful.contract.decisions`."""

from tests.contract.pinned.messages import CALL
from tests.contract.pinned.pin import Pin
from wakeful.contract.decisions import (
    Decision,
    DecisionAction,
    Decisions,
    Expiry,
    ExpiryAction,
    Refusal,
    ResumeMode,
    Suspension,
    SuspensionTicket,
    ToolCallResume,
)

SUSPENSION = Suspension(
    id="perm_c1",
    action="tool:PermissionConfirm",
    message="May I?",
    parameters={"at": "Paris"},
    response_schema={"type": "boolean"},
)
TICKET = SuspensionTicket(suspension=Suspension(id="perm_c1", action="tool:look"), pending=CALL)
RESUME = ToolCallResume(
    decision_id="d1", action=DecisionAction.RESUME, result={"approved": True}, reason="fine", actor="ann", updated_at=7
)
REFUSAL = Refusal(signal="decide", reason="the run has ended", at=7)

PINS = (
    Pin(
        SUSPENSION,
        '{"id":"perm_c1","action":"tool:PermissionConfirm","message":"May I?",'
        '"parameters":{"at":"Paris"},"response_schema":{"type":"boolean"}}',
    ),
    Pin(Suspension(id="perm_c1", action="tool:look"), '{"id":"perm_c1","action":"tool:look"}'),
    Pin(
        TICKET,
        '{"suspension":{"id":"perm_c1","action":"tool:look"},"pending":{"id":"c1","name":"look",'
        '"arguments":{"at":"Paris"}},"resume_mode":"replay_tool_call"}',
    ),
    Pin(
        TICKET.model_copy(update={"resume_mode": ResumeMode.USE_DECISION_AS_TOOL_RESULT}),
        '{"suspension":{"id":"perm_c1","action":"tool:look"},"pending":{"id":"c1","name":"look",'
        '"arguments":{"at":"Paris"}},"resume_mode":"use_decision_as_tool_result"}',
    ),
    Pin(
        TICKET.model_copy(update={"resume_mode": ResumeMode.PASS_DECISION_TO_TOOL}),
        '{"suspension":{"id":"perm_c1","action":"tool:look"},"pending":{"id":"c1","name":"look",'
        '"arguments":{"at":"Paris"}},"resume_mode":"pass_decision_to_tool"}',
    ),
    Pin(Decision(target="c1", action=DecisionAction.CANCEL), '{"target":"c1","action":"cancel"}'),
    Pin(
        Decision(
            target="perm_c1",
            action=DecisionAction.RESUME,
            result={"approved": True},
            reason="fine",
            decision_id="d1",
            actor="ann",
        ),
        '{"target":"perm_c1","action":"resume","result":{"approved":true},"reason":"fine",'
        '"decision_id":"d1","actor":"ann"}',
    ),
    Pin(
        RESUME,
        '{"decision_id":"d1","action":"resume","result":{"approved":true},"reason":"fine","actor":"ann",'
        '"updated_at":7}',
    ),
    Pin(ToolCallResume(action=DecisionAction.CANCEL), '{"decision_id":"","action":"cancel","updated_at":0}'),
    Pin(
        Decisions(decisions=(Decision(target="c1", action=DecisionAction.RESUME),)),
        '{"decisions":[{"target":"c1","action":"resume"}]}',
    ),
    Pin(Expiry(after_seconds=60), '{"after_seconds":60.0,"then":"cancel"}'),
    Pin(
        Expiry(after_seconds=0.5, then=ExpiryAction.RESUME, result={"ok": True}),
        '{"after_seconds":0.5,"then":"resume","result":{"ok":true}}',
    ),
    Pin(
        SuspensionTicket(
            suspension=Suspension(
                id="perm_c1",
                action="tool:look",
                expiry=Expiry(after_seconds=60, then=ExpiryAction.DENY),
                escalate_after_seconds=30,
            ),
            pending=CALL,
            arguments_digest="00ff",
            expires_at=60_000,
            escalates_at=30_000,
            remember="look(at = Paris)",
        ),
        '{"suspension":{"id":"perm_c1","action":"tool:look","expiry":{"after_seconds":60.0,"then":"deny"},'
        '"escalate_after_seconds":30.0},"pending":{"id":"c1","name":"look","arguments":{"at":"Paris"}},'
        '"resume_mode":"replay_tool_call","arguments_digest":"00ff","expires_at":60000,"escalates_at":30000,'
        '"remember":"look(at = Paris)"}',
    ),
    Pin(
        Decision(
            target="c1",
            action=DecisionAction.RESUME,
            arguments={"at": "Rome"},
            arguments_digest="00ff",
            always=True,
        ),
        '{"target":"c1","action":"resume","arguments":{"at":"Rome"},"arguments_digest":"00ff","always":true}',
    ),
    Pin(
        ToolCallResume(action=DecisionAction.RESUME, arguments={"at": "Rome"}),
        '{"decision_id":"","action":"resume","updated_at":0,"arguments":{"at":"Rome"}}',
    ),
    Pin(REFUSAL, '{"signal":"decide","reason":"the run has ended","at":7}'),
)
