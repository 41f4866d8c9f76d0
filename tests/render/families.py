"""Ten model families as tests need them: tiny tokenizers with the real markers at their real ids, and short templates
that treat tools, calls and reasoning as the families' own do."""

import json
from functools import cache
from typing import Any, NamedTuple

from tokenizers import AddedToken, decoders, models, pre_tokenizers, trainers
from tokenizers import Tokenizer as Backend
from transformers import PreTrainedTokenizerFast

from draftmill.render import gguf
from draftmill.render.dialect import Dialect
from draftmill.render.markers import Custom
from draftmill.render.template import ChatTemplate
from draftmill.render.tokenizer import Tokenizer

DAY = "2026-01-31"
FIRST = 1000  # the trained vocabulary begins here, so that markers can have the low ids that some of them have
CORPUS = [
    'the weather in Paris and Zürich {"city": "Paris", "days": 3}',
    '{"name": "get_weather", "arguments": {"city": "Paris"}}',
    "functions.get_weather:0 functions.bash:1 commentary analysis final json assistant system user",
    "I should look at the weather first.\n\nThe weather is fine.\n",
    "\n\n",
    '<invoke name="get_weather">\n<parameter name="city">Paris</parameter>\n</invoke>\n',
]

KIMI = """\
{%- macro head(m) -%}
{%- if m.role == 'user' -%}<|im_user|>user<|im_middle|>
{%- elif m.role == 'assistant' -%}<|im_assistant|>assistant<|im_middle|>
{%- else -%}<|im_system|>{{ m.name or m.role }}<|im_middle|>
{%- endif -%}
{%- endmacro -%}
{%- set ns = namespace(finished=-1) -%}
{%- for m in messages if m.role == 'assistant' and not m.tool_calls -%}
{%- set ns.finished = messages.index(m) -%}
{%- endfor -%}
{%- if tools -%}<|im_system|>tool_declare<|im_middle|>{{ tools | tojson }}<|im_end|>{%- endif -%}
{%- for m in messages -%}
{{- head(m) -}}
{%- if m.role == 'assistant' -%}
<think>{% if loop.index0 > ns.finished %}{{ m.reasoning_content or '' }}{% endif %}</think>{{ m.content or '' }}
{%- if m.tool_calls -%}
<|tool_calls_section_begin|>
{%- for c in m.tool_calls -%}
<|tool_call_begin|>{{ c.id }}<|tool_call_argument_begin|>
{%- if c.function.arguments is string -%}{{ c.function.arguments }}
{%- else -%}{{ c.function.arguments | tojson }}{%- endif -%}
<|tool_call_end|>
{%- endfor -%}
<|tool_calls_section_end|>
{%- endif -%}
{%- elif m.role == 'tool' -%}
## Return of {{ m.tool_call_id }}
{{ m.content }}
{%- else -%}{{ m.content }}
{%- endif -%}
<|im_end|>
{%- endfor -%}
{%- if add_generation_prompt -%}
<|im_assistant|>assistant<|im_middle|><think>{{ '</think>' if thinking is defined and not thinking else '' }}
{%- endif -%}
"""

QWEN3 = """\
{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}{{- messages[0].content + '\\n\\n' }}{%- endif %}
    {{- '# Tools\\n<tools>' }}
    {%- for tool in tools %}{{- '\\n' ~ (tool | tojson) }}{%- endfor %}
    {{- '\\n</tools>\\nCall them within <tool_call></tool_call> tags.<|im_end|>\\n' }}
{%- elif messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- set ns = namespace(query=-1) %}
{%- for m in messages %}{%- if m.role == 'user' %}{%- set ns.query = loop.index0 %}{%- endif %}{%- endfor %}
{%- for m in messages %}
    {%- if m.role == 'user' or (m.role == 'system' and not loop.first) %}
        {{- '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}
    {%- elif m.role == 'assistant' %}
        {%- set content = m.content %}
        {%- set reasoning = m.reasoning_content or '' %}
        {%- if not reasoning and '</think>' in content %}
            {%- set reasoning = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {{- '<|im_start|>assistant\\n' }}
        {%- if loop.index0 > ns.query and (loop.last or reasoning) %}
            {{- '<think>\\n' + reasoning.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') }}
        {%- else %}{{- content }}
        {%- endif %}
        {%- for c in m.tool_calls or [] %}
            {%- if (loop.first and content) or not loop.first %}{{- '\\n' }}{%- endif %}
            {{- '<tool_call>\\n{"name": "' + c.function.name + '", "arguments": ' }}
            {%- if c.function.arguments is string %}{{- c.function.arguments }}
            {%- else %}{{- c.function.arguments | tojson }}{%- endif %}
            {{- '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif m.role == 'tool' %}
        {%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}{{- '<|im_start|>user' }}{%- endif %}
        {{- '\\n<tool_response>\\n' + m.content + '\\n</tool_response>' }}
        {%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{- '<|im_end|>\\n' }}{%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}
{%- endif %}
"""

HERMES = """\
{%- if tools %}
    {{- '<|im_start|>system\\nHere are the available tools: <tools> ' }}
    {%- for tool in tools %}{{- (tool | tojson) + '\\n' }}{%- endfor %}
    {{- ' </tools> Answer with <tool_call>\\n{"name": ..., "arguments": ...}\\n</tool_call><|im_end|>\\n' }}
{%- endif %}
{%- for m in messages %}
    {%- if m.role == 'tool' %}
        {{- '<|im_start|>tool\\n<tool_response>\\n' + m.content + '\\n</tool_response><|im_end|>\\n' }}
    {%- elif m.tool_calls %}
        {{- '<|im_start|>assistant' + ('\\n' + m.content if m.content else '') }}
        {%- for c in m.tool_calls %}
            {{- '\\n<tool_call>\\n{"name": "' + c.function.name + '", "arguments": ' }}
            {{- (c.function.arguments | tojson) + '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- else %}
        {{- '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}
"""

# R1: it takes arguments as text, never renders reasoning, and follows calls with an answer of their content
DEEPSEEK_R1 = """\
{%- set ns = namespace(tool=false) -%}
{{- bos_token -}}
{%- for m in messages if m.role == 'system' -%}{{- m.content -}}{%- endfor -%}
{%- for m in messages -%}
{%- if m.role == 'user' -%}{{- '<｜User｜>' + m.content -}}{%- set ns.tool = false -%}{%- endif -%}
{%- if m.role == 'assistant' and m.tool_calls -%}
{%- set ns.tool = false -%}
{{- '<｜Assistant｜><｜tool▁calls▁begin｜>' -}}
{%- for c in m.tool_calls -%}
{{- '' if loop.first else '\\n' -}}
{{- '<｜tool▁call▁begin｜>' + c.type + '<｜tool▁sep｜>' + c.function.name + '\\n```json\\n' -}}
{{- c.function.arguments + '\\n```<｜tool▁call▁end｜>' -}}
{%- endfor -%}
{{- '<｜tool▁calls▁end｜><｜end▁of▁sentence｜>' -}}
{%- endif -%}
{%- if m.role == 'assistant' and m.content is not none -%}
{{- ('' if ns.tool else '<｜Assistant｜>') + m.content.split('</think>')[-1] + '<｜end▁of▁sentence｜>' -}}
{%- set ns.tool = false -%}
{%- endif -%}
{%- if m.role == 'tool' -%}
{{- '<｜tool▁output▁begin｜>' + m.content + '<｜tool▁output▁end｜>' -}}{%- set ns.tool = true -%}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt and not ns.tool -%}{{- '<｜Assistant｜><think>\\n' -}}{%- endif -%}
"""

DEEPSEEK_V31 = """\
{%- set ns = namespace(user=false) -%}
{{- bos_token -}}
{%- for m in messages if m.role == 'system' -%}{{- m.content -}}{%- endfor -%}
{%- if tools -%}{{- '\\n## Tools\\n' + (tools | tojson) -}}{%- endif -%}
{%- for m in messages -%}
{%- if m.role == 'user' -%}{{- '<｜User｜>' + m.content -}}{%- set ns.user = true -%}
{%- elif m.role == 'assistant' -%}
{%- if ns.user -%}{{- '<｜Assistant｜></think>' -}}{%- endif -%}
{%- set ns.user = false -%}
{{- m.content or '' -}}
{%- if m.tool_calls -%}
{{- '<｜tool▁calls▁begin｜>' -}}
{%- for c in m.tool_calls -%}
{{- '<｜tool▁call▁begin｜>' + c.function.name + '<｜tool▁sep｜>' + c.function.arguments + '<｜tool▁call▁end｜>' -}}
{%- endfor -%}
{{- '<｜tool▁calls▁end｜>' -}}
{%- endif -%}
{{- '<｜end▁of▁sentence｜>' -}}
{%- elif m.role == 'tool' -%}
{{- '<｜tool▁output▁begin｜>' + m.content + '<｜tool▁output▁end｜>' -}}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt and ns.user -%}
{{- '<｜Assistant｜>' + ('<think>' if thinking else '</think>') -}}
{%- endif -%}
"""

GPT_OSS = """\
{{- '<|start|>system<|message|>You are ChatGPT.\\nCurrent date: ' + strftime_now('%Y-%m-%d') + '<|end|>' }}
{%- if messages[0].role == 'system' or tools %}
    {{- '<|start|>developer<|message|>' }}
    {%- if messages[0].role == 'system' %}{{- '# Instructions\\n\\n' + messages[0].content }}{%- endif %}
    {%- if tools %}
        {{- '# Tools\\n\\nnamespace functions {\\n' }}
        {%- for tool in tools %}{{- 'type ' + tool.function.name + ' = (_: any) => any;\\n' }}{%- endfor %}
        {{- '}' }}
    {%- endif %}
    {{- '<|end|>' }}
{%- endif %}
{%- set called = namespace(name=none) %}
{%- for m in messages if m.role != 'system' %}
    {%- if m.role == 'assistant' and 'tool_calls' in m %}
        {%- if m.content and m.thinking %}{{- raise_exception('Cannot pass both content and thinking') }}{%- endif %}
        {%- if m.content or m.thinking %}
            {{- '<|start|>assistant<|channel|>analysis<|message|>' + (m.content or m.thinking) + '<|end|>' }}
        {%- endif %}
        {%- set called.name = m.tool_calls[0].function.name %}
        {{- '<|start|>assistant to=functions.' + called.name + '<|channel|>commentary json<|message|>' }}
        {{- (m.tool_calls[0].function.arguments | tojson) + '<|call|>' }}
    {%- elif m.role == 'assistant' and loop.last and not add_generation_prompt %}
        {%- if m.thinking %}
            {{- '<|start|>assistant<|channel|>analysis<|message|>' + m.thinking + '<|end|>' }}
        {%- endif %}
        {{- '<|start|>assistant<|channel|>final<|message|>' + m.content + '<|return|>' }}
    {%- elif m.role == 'assistant' %}
        {{- '<|start|>assistant<|channel|>final<|message|>' + m.content + '<|end|>' }}
    {%- elif m.role == 'tool' %}
        {{- '<|start|>functions.' + called.name + ' to=assistant<|channel|>commentary<|message|>' }}
        {{- (m.content | tojson) + '<|end|>' }}
    {%- else %}
        {{- '<|start|>user<|message|>' + m.content + '<|end|>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start|>assistant' }}{%- endif %}
"""

GLM = """\
[gMASK]<sop>
{%- if tools %}<|system|>
# Tools
{% for tool in tools %}{{ tool | tojson }}
{% endfor %}Answer with <tool_call>name, <arg_key>key</arg_key> and <arg_value>value</arg_value>.{% endif %}
{%- set ns = namespace(query=-1) %}
{%- for m in messages %}{%- if m.role == 'user' %}{%- set ns.query = loop.index0 %}{%- endif %}{%- endfor %}
{%- for m in messages %}
    {%- if m.role == 'user' %}
        {{- '<|user|>\\n' + m.content + ('/nothink' if enable_thinking is defined and not enable_thinking else '') }}
    {%- elif m.role == 'assistant' %}
        {%- set reasoning = m.reasoning_content if m.reasoning_content and loop.index0 > ns.query else '' %}
        {{- '<|assistant|>\\n<think>' + reasoning.strip() + '</think>' }}
        {%- if m.content.strip() %}{{- '\\n' + m.content.strip() }}{%- endif %}
        {%- for c in m.tool_calls or [] %}
            {{- '\\n<tool_call>' + c.function.name }}
            {%- for key, value in c.function.arguments.items() %}
                {{- '\\n<arg_key>' + key + '</arg_key>\\n<arg_value>' }}
                {{- (value if value is string else value | tojson) + '</arg_value>' }}
            {%- endfor %}
            {{- '\\n</tool_call>' }}
        {%- endfor %}
    {%- elif m.role == 'tool' %}
        {%- if messages[loop.index0 - 1].role != 'tool' %}{{- '<|observation|>' }}{%- endif %}
        {{- '\\n<tool_response>\\n' + m.content + '\\n</tool_response>' }}
    {%- else %}
        {{- '<|system|>\\n' + m.content }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|assistant|>' + ('\\n<think></think>' if enable_thinking is defined and not enable_thinking else '') }}
{%- endif %}
"""

MINIMAX = """\
{%- set ns = namespace(query=-1) %}
{%- for m in messages %}{%- if m.role == 'user' %}{%- set ns.query = loop.index0 %}{%- endif %}{%- endfor %}
{{- ']~!b[]~b]system\\n' + (messages[0].content if messages[0].role == 'system' else 'You help.') }}
{%- if tools %}
    {{- '\\n\\n# Tools\\n<tools>\\n' }}
    {%- for tool in tools %}{{- '<tool>' + (tool.function | tojson) + '</tool>\\n' }}{%- endfor %}
    {{- '</tools>\\n\\n<minimax:tool_call>\\n<invoke name="tool-name">\\n</invoke>\\n</minimax:tool_call>' }}
{%- endif %}
{{- '[e~[\\n' }}
{%- for m in messages if m.role != 'system' %}
    {%- if m.role == 'assistant' %}
        {{- ']~b]ai\\n' }}
        {%- if m.reasoning_content and messages.index(m) > ns.query %}
            {{- '<think>\\n' + m.reasoning_content + '\\n</think>\\n\\n' }}
        {%- endif %}
        {{- m.content }}
        {%- if m.tool_calls %}
            {{- '\\n<minimax:tool_call>\\n' }}
            {%- for c in m.tool_calls %}
                {{- '<invoke name="' + c.function.name + '">\\n' }}
                {%- for key, value in c.function.arguments.items() %}
                    {{- '<parameter name="' + key + '">' + (value if value is string else value | tojson) }}
                    {{- '</parameter>\\n' }}
                {%- endfor %}
                {{- '</invoke>\\n' }}
            {%- endfor %}
            {{- '</minimax:tool_call>' }}
        {%- endif %}
        {{- '[e~[\\n' }}
    {%- elif m.role == 'tool' %}
        {{- ']~b]tool\\n<response>' + m.content + '</response>[e~[\\n' }}
    {%- else %}
        {{- ']~b]user\\n' + m.content + '[e~[\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- ']~b]ai\\n<think>\\n' }}{%- endif %}
"""

GEMMA3 = """\
{{- bos_token -}}
{%- set first = messages[0].content + '\\n\\n' if messages[0].role == 'system' else '' -%}
{%- for m in (messages[1:] if messages[0].role == 'system' else messages) -%}
{%- if (m.role == 'user') != (loop.index0 % 2 == 0) -%}
{{- raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') -}}
{%- endif -%}
{{- '<start_of_turn>' + ('model' if m.role == 'assistant' else m.role) + '\\n' -}}
{{- (first if loop.first else '') + (m.content | trim) + '<end_of_turn>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<start_of_turn>model\\n' -}}{%- endif -%}
"""

LLAMA3 = """\
{{- bos_token + '<|start_header_id|>system<|end_header_id|>\\n\\n' }}
{{- 'Today Date: ' + strftime_now('%d %b %Y') + '\\n\\n' }}
{%- if tools %}{%- for tool in tools %}{{- (tool | tojson) + '\\n\\n' }}{%- endfor %}{%- endif %}
{%- if messages[0].role == 'system' %}{{- messages[0].content | trim }}{%- endif %}
{{- '<|eot_id|>' }}
{%- for m in messages if m.role != 'system' %}
    {%- if m.tool_calls %}
        {%- if m.tool_calls | length != 1 %}
            {{- raise_exception('This model only supports single tool-calls at once!') }}
        {%- endif %}
        {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n{"name": "' + m.tool_calls[0].function.name }}
        {{- '", "parameters": ' + (m.tool_calls[0].function.arguments | tojson) + '}<|eot_id|>' }}
    {%- else %}
        {{- '<|start_header_id|>' + ('ipython' if m.role == 'tool' else m.role) + '<|end_header_id|>\\n\\n' }}
        {{- (m.content | trim) + '<|eot_id|>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{%- endif %}
"""

SMOLLM2 = """\
{% for m in messages %}
{% if loop.first and messages[0].role != 'system' %}{{ '<|im_start|>system\\nYou help.<|im_end|>\\n' }}{% endif %}
{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>' + '\\n' }}{% endfor %}
{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}
"""


class Fixture(NamedTuple):
    """A family's template and markers; ``stops`` are the ends that its generation config names."""

    template: str
    markers: dict[str, int]
    stops: tuple[str, ...]
    bos: str | None = None


_CHATML = {"<|im_start|>": 151644, "<|im_end|>": 151645}
_QWEN_TOOLS = {"<tool_call>": 151657, "</tool_call>": 151658, "<tool_response>": 151665, "</tool_response>": 151666}
_DEEPSEEK = {
    "<｜begin▁of▁sentence｜>": 0,
    "<｜end▁of▁sentence｜>": 1,
    "<think>": 128798,
    "</think>": 128799,
    "<｜User｜>": 128803,
    "<｜Assistant｜>": 128804,
    "<｜tool▁calls▁begin｜>": 128806,
    "<｜tool▁calls▁end｜>": 128807,
    "<｜tool▁call▁begin｜>": 128808,
    "<｜tool▁call▁end｜>": 128809,
    "<｜tool▁output▁begin｜>": 128812,
    "<｜tool▁output▁end｜>": 128813,
    "<｜tool▁sep｜>": 128814,
}

FIXTURES = {
    "kimi": Fixture(
        KIMI,
        {
            "[BOS]": 163584,
            "[EOS]": 163585,
            "<|im_end|>": 163586,
            "<|im_user|>": 163587,
            "<|im_assistant|>": 163588,
            "<|im_system|>": 163594,
            "<|tool_calls_section_begin|>": 163595,
            "<|tool_calls_section_end|>": 163596,
            "<|tool_call_begin|>": 163597,
            "<|tool_call_argument_begin|>": 163598,
            "<|tool_call_end|>": 163599,
            "<|im_middle|>": 163601,
            "<think>": 163606,
            "</think>": 163607,
        },
        ("[EOS]", "<|im_end|>"),
    ),
    "qwen3": Fixture(
        QWEN3,
        {"<|endoftext|>": 151643, **_CHATML, **_QWEN_TOOLS, "<think>": 151667, "</think>": 151668},
        ("<|im_end|>", "<|endoftext|>"),
    ),
    "hermes": Fixture(HERMES, {"<|endoftext|>": 151643, **_CHATML, **_QWEN_TOOLS}, ("<|im_end|>",)),
    "deepseek-r1": Fixture(DEEPSEEK_R1, _DEEPSEEK, ("<｜end▁of▁sentence｜>",), "<｜begin▁of▁sentence｜>"),
    "deepseek-v3.1": Fixture(DEEPSEEK_V31, _DEEPSEEK, ("<｜end▁of▁sentence｜>",), "<｜begin▁of▁sentence｜>"),
    "gpt-oss": Fixture(
        GPT_OSS,
        {
            "<|endoftext|>": 199999,
            "<|return|>": 200002,
            "<|constrain|>": 200003,
            "<|channel|>": 200005,
            "<|start|>": 200006,
            "<|end|>": 200007,
            "<|message|>": 200008,
            "<|call|>": 200012,
        },
        ("<|return|>", "<|endoftext|>", "<|call|>"),
    ),
    "glm": Fixture(
        GLM,
        {
            "<|endoftext|>": 151329,
            "[gMASK]": 151331,
            "<sop>": 151333,
            "<|system|>": 151335,
            "<|user|>": 151336,
            "<|assistant|>": 151337,
            "<|observation|>": 151338,
            "<think>": 151350,
            "</think>": 151351,
            "<tool_call>": 151352,
            "</tool_call>": 151353,
            "<tool_response>": 151354,
            "</tool_response>": 151355,
            "<arg_key>": 151356,
            "</arg_key>": 151357,
            "<arg_value>": 151358,
            "</arg_value>": 151359,
        },
        ("<|endoftext|>", "<|user|>", "<|observation|>"),
    ),
    "minimax": Fixture(
        MINIMAX,
        {
            "]~!b[": 200034,
            "]~b]": 200019,
            "[e~[": 200020,
            "<think>": 200050,
            "</think>": 200051,
            "<minimax:tool_call>": 200052,
            "</minimax:tool_call>": 200053,
        },
        ("[e~[",),
    ),
    "gemma": Fixture(
        GEMMA3,
        {"<pad>": 0, "<eos>": 1, "<bos>": 2, "<start_of_turn>": 105, "<end_of_turn>": 106},
        ("<eos>", "<end_of_turn>"),
        "<bos>",
    ),
    "llama3": Fixture(
        LLAMA3,
        {
            "<|begin_of_text|>": 128000,
            "<|end_of_text|>": 128001,
            "<|start_header_id|>": 128006,
            "<|end_header_id|>": 128007,
            "<|eom_id|>": 128008,
            "<|eot_id|>": 128009,
            "<|python_tag|>": 128010,
        },
        ("<|end_of_text|>", "<|eom_id|>", "<|eot_id|>"),
        "<|begin_of_text|>",
    ),
    "smollm2": Fixture(SMOLLM2, {"<|endoftext|>": 0, "<|im_start|>": 1, "<|im_end|>": 2}, ("<|im_end|>",)),
}


def tokenizer(markers: dict[str, int], template: str, stops: tuple[str, ...] = (), bos: str | None = None) -> Tokenizer:
    """A byte-level BPE trained on CORPUS, with these markers at these ids."""
    vocabulary, merges = _trained()
    backend = Backend(models.BPE(vocab={**vocabulary, **markers}, merges=merges))
    backend.pre_tokenizer = gguf._pre_tokenizer(gguf._PATTERNS["qwen2"])
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in markers])
    inner = PreTrainedTokenizerFast(tokenizer_object=backend, bos_token=bos, clean_up_tokenization_spaces=False)
    inner.chat_template = template
    return Tokenizer(inner, [markers[text] for text in stops], "fixture")


@cache
def _trained() -> tuple[dict[str, int], list[tuple[str, str]]]:
    backend = Backend(models.BPE())
    backend.pre_tokenizer = gguf._pre_tokenizer(gguf._PATTERNS["qwen2"])
    trainer = trainers.BpeTrainer(
        vocab_size=420, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    backend.train_from_iterator(CORPUS * 3, trainer)
    model = json.loads(backend.to_str())["model"]
    merges = [tuple(pair.split(" ", 1)) if isinstance(pair, str) else tuple(pair) for pair in model["merges"]]
    return {token: FIRST + id for token, id in model["vocab"].items()}, merges


class Model(NamedTuple):
    """A family's tokenizer, template and dialect."""

    tokenizer: Tokenizer
    template: ChatTemplate
    dialect: Dialect

    def ids(self, text: str) -> list[int]:
        return self.tokenizer.encode([text])[0]


def model(name: str, custom: Custom | None = None, **arguments: Any) -> Model:
    """A family by its name, with template arguments."""
    return made(FIXTURES[name], custom, **arguments)


def made(fixture: Fixture, custom: Custom | None = None, **arguments: Any) -> Model:
    loaded = tokenizer(fixture.markers, fixture.template, fixture.stops, fixture.bos)
    template = ChatTemplate(loaded, DAY)
    return Model(loaded, template, Dialect(loaded, template, arguments, custom))


@cache
def plain_model(name: str) -> Model:
    """A family with its template's defaults, made once."""
    return model(name)
