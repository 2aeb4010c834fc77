"""The context types as they are written to history, for good."""

from tests.contract.pinned.pin import Pin
from wakeful.contract.context import CompactionMark, ContextMessage, ContextPolicy, ContextReport, ContextTarget
from wakeful.contract.messages import Role, TextBlock

PINS: tuple[Pin, ...] = (
    Pin(
        ContextPolicy(summarizer_system_prompt="Summarise.", summarizer_user_prompt="{messages}"),
        '{"max_context_tokens":200000,"max_output_tokens":16384,"min_recent_messages":10,"enable_prompt_cache":true,'
        '"compaction_raw_suffix_messages":2,"summary_max_tokens":1024,"summarizer_system_prompt":"Summarise.",'
        '"summarizer_user_prompt":"{messages}","min_savings_ratio":0.3}',
    ),
    Pin(
        ContextPolicy(
            max_context_tokens=1000,
            max_output_tokens=100,
            min_recent_messages=4,
            enable_prompt_cache=False,
            autocompact_threshold=700,
            compaction_raw_suffix_messages=3,
            summary_max_tokens=50,
            summary_model="small",
            summarizer_system_prompt="Summarise.",
            summarizer_user_prompt="{messages}",
            min_savings_ratio=0.5,
        ),
        '{"max_context_tokens":1000,"max_output_tokens":100,"min_recent_messages":4,"enable_prompt_cache":false,'
        '"autocompact_threshold":700,"compaction_raw_suffix_messages":3,"summary_max_tokens":50,'
        '"summary_model":"small","summarizer_system_prompt":"Summarise.","summarizer_user_prompt":"{messages}",'
        '"min_savings_ratio":0.5}',
    ),
    Pin(
        ContextMessage(key="clock", content=(TextBlock(text="It is noon."),)),
        '{"key":"clock","role":"system","content":[{"type":"text","text":"It is noon."}],"visibility":"internal",'
        '"target":"system","cooldown_turns":0,"priority":0}',
    ),
    Pin(
        ContextMessage(
            key="clock",
            role=Role.USER,
            content=(),
            target=ContextTarget.SUFFIX_SYSTEM,
            cooldown_turns=3,
            persistent=True,
            consume_after_emit=True,
            priority=-1,
        ),
        '{"key":"clock","role":"user","content":[],"visibility":"internal","target":"suffix_system",'
        '"cooldown_turns":3,"persistent":true,"consume_after_emit":true,"priority":-1}',
    ),
    Pin(
        ContextReport(estimated_tokens=900, history_tokens=1200),
        '{"estimated_tokens":900,"history_tokens":1200}',
    ),
    Pin(
        ContextReport(estimated_tokens=900, history_tokens=1200, dropped=3, cut=1),
        '{"estimated_tokens":900,"history_tokens":1200,"dropped":3,"cut":1}',
    ),
    Pin(
        CompactionMark(through=7, summary="Ada asked.", pre_tokens=2000, post_tokens=40),
        '{"through":7,"summary":"Ada asked.","pre_tokens":2000,"post_tokens":40}',
    ),
)
