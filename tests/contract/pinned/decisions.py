"""Pins of `wakeful.contract.decisions`."""

from tests.contract.pinned.messages import CALL
from tests.contract.pinned.pin import Pin
from wakeful.contract.decisions import (
    Decision,
    DecisionAction,
    Decisions,
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
    Pin(REFUSAL, '{"signal":"decide","reason":"the run has ended","at":7}'),
)
