"""Answers of every family, the ugly ones too, and the parts that they have.

An answer is written with signs for its family's markers (SIGNS). Its parts are written one a line::

    think 'text'     reasoning         say 'text'    content        call NAME JSON   a call that can be read
    frame 'text'     structure         end           turn end       call NAME ! RAW  one that cannot
    after 'text'     behind the end    stop          another stop

``…`` behind a word says that it does not end. What is odd follows in the third column, as names of ``Oddity``.
"""

from typing import NamedTuple

SIGNS = {
    "kimi": {
        "⟦": "<|tool_calls_section_begin|>",
        "⟧": "<|tool_calls_section_end|>",
        "⟨": "<|tool_call_begin|>",
        "¦": "<|tool_call_argument_begin|>",
        "⟩": "<|tool_call_end|>",
        "■": "<|im_end|>",
        "□": "[EOS]",
    },
    "qwen3": {"⟨": "<tool_call>", "⟩": "</tool_call>", "■": "<|im_end|>", "□": "<|endoftext|>"},
    "hermes": {"⟨": "<tool_call>", "⟩": "</tool_call>", "■": "<|im_end|>"},
    "deepseek-r1": {
        "⟦": "<｜tool▁calls▁begin｜>",
        "⟧": "<｜tool▁calls▁end｜>",
        "⟨": "<｜tool▁call▁begin｜>",
        "¦": "<｜tool▁sep｜>",
        "⟩": "<｜tool▁call▁end｜>",
        "■": "<｜end▁of▁sentence｜>",
    },
    "gpt-oss": {
        "▸": "<|start|>assistant",
        "@": "<|channel|>",
        "~": "<|constrain|>",
        "|": "<|message|>",
        ";": "<|end|>",
        "!": "<|call|>",
        "■": "<|return|>",
        "□": "<|endoftext|>",
    },
    "glm": {"⟨": "<tool_call>", "⟩": "</tool_call>", "■": "<|user|>", "□": "<|observation|>"},
    "minimax": {"⟨": "<minimax:tool_call>", "⟩": "</minimax:tool_call>", "■": "[e~["},
    "gemma": {"■": "<end_of_turn>", "□": "<eos>"},
    "llama3": {"⟨": "<|python_tag|>", "■": "<|eot_id|>", "▪": "<|eom_id|>", "□": "<|end_of_text|>"},
    "smollm2": {"■": "<|im_end|>", "□": "<|endoftext|>"},
}
SIGNS["deepseek-v3.1"] = SIGNS["deepseek-r1"]


class Case(NamedTuple):
    """An answer, its parts, and what is odd about it."""

    answer: str
    parts: list[str]
    odd: str = ""


# the prompts of kimi, deepseek-r1, deepseek-v3.1 (here) and minimax end inside the thinking
THINKING = {"deepseek-v3.1": {"thinking": True}}

CASES: dict[str, list[Case]] = {
    "kimi": [
        Case("a</think>b■", ["think 'a'", "say 'b'", "end"]),
        Case("</think>b■", ["think ''", "say 'b'", "end"]),
        Case(
            'a</think>b⟦⟨functions.bash:0¦{"x": 1}⟩⟧■',
            ["think 'a'", "say 'b'", "frame '⟦'", 'call bash {"x": 1}', "frame '⟧'", "end"],
        ),
        Case(
            'a</think>⟦⟨functions.f:3¦{}⟩⟨functions.g.h:4¦{"y":[]}⟩⟧■',
            ["think 'a'", "frame '⟦'", "call f {}", 'call g.h {"y": []}', "frame '⟧'", "end"],
        ),
        Case(  # a section opened inside thinking ends it
            "let me⟦⟨functions.f:0¦{}⟩⟧■",
            ["think… 'let me'", "frame '⟦'", "call f {}", "frame '⟧'", "end"],
            "CALL_IN_THINKING",
        ),
        Case(  # quoted inside thinking that ends later
            "I could ⟦⟨functions.f:0¦{}⟩⟧ but no</think>b■",
            ["think 'I could ⟦⟨functions.f:0¦{}⟩⟧ but no'", "say 'b'", "end"],
            "STRAY_MARKER STRAY_MARKER STRAY_MARKER STRAY_MARKER STRAY_MARKER",
        ),
        Case("a", ["think… 'a'"], "THINKING_UNCLOSED"),
        Case("a■", ["think… 'a'", "end"], "THINKING_UNCLOSED"),
        Case("", [], "THINKING_UNCLOSED"),
        Case("a</think>", ["think 'a'"]),
        Case("a</think>b", ["think 'a'", "say 'b'"]),
        Case("a</think>b□", ["think 'a'", "say 'b'", "stop"]),
        Case(
            'a</think>⟦⟨functions.f:0¦{"x": ',
            ["think 'a'", "frame '⟦'", "call… f ! '{\"x\": '"],
            "CALL_UNCLOSED SECTION_UNCLOSED",
        ),
        Case(
            "a</think>⟦⟨functions.f",
            ["think 'a'", "frame '⟦'", "call…  ! 'functions.f'"],
            "CALL_UNCLOSED SECTION_UNCLOSED",
        ),
        Case("a</think>⟦", ["think 'a'", "frame '⟦'"], "SECTION_UNCLOSED"),
        Case(
            "a</think>⟦⟨functions.f:0¦{}⟩",
            ["think 'a'", "frame '⟦'", "call f {}"],
            "SECTION_UNCLOSED",
        ),
        Case(
            "a</think>⟦⟨functions.f:0¦{}⟩\n⟨functions.g:1¦{}⟩ and ⟧■",
            ["think 'a'", "frame '⟦'", "call f {}", "frame '\\n'", "call g {}", "frame ' and '", "frame '⟧'", "end"],
            "TEXT_IN_SECTION",
        ),
        Case(
            "a</think>⟦⟨functions.f:0¦{}⟩⟧more■",
            ["think 'a'", "frame '⟦'", "call f {}", "frame '⟧'", "say 'more'", "end"],
            "TEXT_AFTER_CALL",
        ),
        Case(  # the first call never ends
            "a</think>⟦⟨functions.f:0¦{}⟨functions.g:1¦{}⟩⟧■",
            ["think 'a'", "frame '⟦'", "call… f {}", "call g {}", "frame '⟧'", "end"],
            "CALL_UNCLOSED",
        ),
        Case(
            "a</think>⟦⟨functions.f:0¦{}⟧■",
            ["think 'a'", "frame '⟦'", "call… f {}", "frame '⟧'", "end"],
            "CALL_UNCLOSED",
        ),
        Case(
            "a</think>⟦⟨functions.f:0¦{x}⟩⟨my call¦{}⟩⟨functions.g:1⟩⟨⟩⟧■",
            [
                "think 'a'",
                "frame '⟦'",
                "call f ! '{x}'",
                "call  ! '{}'",
                "call g ! ''",
                "call  ! ''",
                "frame '⟧'",
                "end",
            ],
        ),
        Case(
            "a</think>⟨functions.f:0¦{}⟩■",  # the section is missing
            ["think 'a'", "call f {}", "end"],
        ),
        Case(
            "a</think>b<think>c</think>d■",
            ["think 'a'", "say 'b'", "think 'c'", "say 'd'", "end"],
        ),
        Case("a</think>b</think>⟩c■", ["think 'a'", "say 'b</think>⟩c'", "end"], "STRAY_MARKER STRAY_MARKER"),
        Case("a</think>b■c", ["think 'a'", "say 'b'", "end", "after 'c'"], "AFTER_END"),
        Case("■", ["end"], "THINKING_UNCLOSED"),
    ],
    "qwen3": [
        Case("<think>\na\n</think>\n\nb■", ["think '\\na\\n'", "say '\\n\\nb'", "end"]),
        Case("b■", ["say 'b'", "end"]),
        Case("<think>\n\n</think>\n\nb", ["think '\\n\\n'", "say '\\n\\nb'"]),
        Case("<think>a", ["think… 'a'"], "THINKING_UNCLOSED"),
        Case("<think>a■", ["think… 'a'", "end"], "THINKING_UNCLOSED"),
        Case(
            '⟨\n{"name": "f", "arguments": {"x": "ü"}}\n⟩■',
            ['call f {"x": "ü"}', "end"],
        ),
        Case(
            '<think>a</think>b\n⟨{"name":"f","arguments":{}}⟩\n⟨{"name":"g","arguments":{"y":null}}⟩■',
            ["think 'a'", "say 'b\\n'", "call f {}", "say '\\n'", 'call g {"y": null}', "end"],
        ),
        Case(
            '⟨{"name":"f","arguments":{}}⟩ then ⟨{"name":"g","arguments":{}}⟩ done■',
            ["call f {}", "say ' then '", "call g {}", "say ' done'", "end"],
            "TEXT_AFTER_CALL TEXT_AFTER_CALL",
        ),
        Case('⟨{"name": "f", "arguments": {"x": "a', ['call… f ! \'{"x": "a\''], "CALL_UNCLOSED"),
        Case('⟨{"na', ["call…  ! '{\"na'"], "CALL_UNCLOSED"),
        Case("⟨", ["call…  ! ''"], "CALL_UNCLOSED"),
        Case("⟨⟩■", ["call  ! ''", "end"]),
        Case("⟨{'name': 'f'}⟩■", ["call  ! \"{'name': 'f'}\"", "end"]),
        Case('⟨{"arguments": {}}⟩■', ["call  ! '{\"arguments\": {}}'", "end"]),
        Case('⟨{"name": "f", "parameters": {"x": 1}}⟩■', ['call f {"x": 1}', "end"]),
        Case('⟨[{"name": "f", "arguments": {}}, {"name": "g"}]⟩■', ["call f {}", "call g {}", "end"]),
        Case('⟨{"name": "f", "arguments": "{\\"x\\": 1}"}⟩■', ['call f {"x": 1}', "end"]),
        Case('⟨{"name": "f", "arguments": {"x": NaN}}⟩■', ["call f ! '{\"x\": NaN}}'", "end"]),
        Case(  # opened inside thinking, which never ends
            '<think>a ⟨{"name":"f","arguments":{}}⟩■',
            ["think… 'a '", "call f {}", "end"],
            "CALL_IN_THINKING",
        ),
        Case(
            '<think>maybe ⟨{"name":"f"}⟩ no</think>b■',
            ['think \'maybe ⟨{"name":"f"}⟩ no\'', "say 'b'", "end"],
            "STRAY_MARKER STRAY_MARKER",
        ),
        Case('⟨{"name":"f"}⟨{"name":"g"}⟩■', ["call… f {}", "call g {}", "end"], "CALL_UNCLOSED"),
        Case("a</think>b⟩■", ["say 'a</think>b⟩'", "end"], "STRAY_MARKER STRAY_MARKER"),
        Case("a<think>b</think>c■", ["say 'a'", "think 'b'", "say 'c'", "end"]),
        Case("<think>a<think>b</think>c□", ["think 'a<think>b'", "say 'c'", "stop"], "STRAY_MARKER"),
        Case("", []),
        Case("a■■", ["say 'a'", "end", "after '■'"], "AFTER_END"),
    ],
    "hermes": [
        Case("hi■", ["say 'hi'", "end"]),
        Case("hi", ["say 'hi'"]),
        Case("", []),
        Case("■", ["end"]),
        Case("<think>a</think>b■", ["say '<think>a</think>b'", "end"]),  # no tokens of this vocabulary
        Case('\n⟨\n{"name": "f", "arguments": {"x": 1}}\n⟩■', ["say '\\n'", 'call f {"x": 1}', "end"]),
        Case('Sure.\n⟨{"arguments": {"x": 1}, "name": "f"}⟩■', ["say 'Sure.\\n'", 'call f {"x": 1}', "end"]),
        Case(
            '⟨{"name": "f", "arguments": {}}⟩\n⟨{"name": "f", "arguments": {"x": 2}}⟩■',
            ["call f {}", "say '\\n'", 'call f {"x": 2}', "end"],
        ),
        Case("⟨{'name': 'f', 'arguments': {}}⟩■", ["call  ! \"{'name': 'f', 'arguments': {}}\"", "end"]),
        Case('⟨{"name": "f", "arguments": {"x": 1}}', ['call… f {"x": 1}'], "CALL_UNCLOSED"),
        Case('⟨{"name": "f", "arguments": {"x": 1}}■', ['call… f {"x": 1}', "end"], "CALL_UNCLOSED"),
        Case('⟨{"name": "f"} and so on⟩■', ['call f ! \'{"name": "f"} and so on\'', "end"]),
        Case('⟨{"name": "f", "arguments": [1]}⟩■', ["call f [1]", "end"]),
        Case('⟨{"name": "f", "arguments": null}⟩■', ["call f null", "end"]),
        Case(
            '⟩⟨{"name": "f"}⟩⟩■',
            ["say '⟩'", "call f {}", "say '⟩'", "end"],
            "STRAY_MARKER STRAY_MARKER TEXT_AFTER_CALL",
        ),
    ],
    "deepseek-r1": [
        Case("a\n</think>\n\nb■", ["think 'a\\n'", "say '\\n\\nb'", "end"]),
        Case("a", ["think… 'a'"], "THINKING_UNCLOSED"),
        Case("a■", ["think… 'a'", "end"], "THINKING_UNCLOSED"),
        Case(
            'a</think>⟦⟨function¦f\n```json\n{"x": 1}\n```⟩⟧■',
            ["think 'a'", "frame '⟦'", 'call f {"x": 1}', "frame '⟧'", "end"],
        ),
        Case(
            'a</think>⟦⟨function¦f\n```json\n{}\n```⟩\n⟨function¦g\n```json\n{"y": "```"}\n```⟩⟧■',
            ["think 'a'", "frame '⟦'", "call f {}", "frame '\\n'", 'call g {"y": "```"}', "frame '⟧'", "end"],
        ),
        Case(  # this model leaves the end of a call out now and then
            "a</think>⟦⟨function¦f\n```json\n{}\n```⟧■",
            ["think 'a'", "frame '⟦'", "call… f {}", "frame '⟧'", "end"],
            "CALL_UNCLOSED",
        ),
        Case(
            'a</think>⟦⟨function¦f\n```json\n{"x": ',
            ["think 'a'", "frame '⟦'", "call… f ! '{\"x\": '"],
            "CALL_UNCLOSED SECTION_UNCLOSED",
        ),
        Case(
            "a</think>⟦⟨function¦f",
            ["think 'a'", "frame '⟦'", "call… function ! 'f'"],
            "CALL_UNCLOSED SECTION_UNCLOSED",
        ),
        Case(
            "a</think>⟦⟨func",
            ["think 'a'", "frame '⟦'", "call… func ! ''"],
            "CALL_UNCLOSED SECTION_UNCLOSED",
        ),
        Case(
            "a⟦⟨function¦f\n```json\n{}\n```⟩⟧■",
            ["think… 'a'", "frame '⟦'", "call f {}", "frame '⟧'", "end"],
            "CALL_IN_THINKING",
        ),
        Case(
            "a</think>⟦⟨function¦f\n{}⟩⟧■",
            ["think 'a'", "frame '⟦'", "call function ! 'f\\n{}'", "frame '⟧'", "end"],
        ),
        Case(
            "a</think>⟦⟨function¦f\n```json\n{}\n```⟩⟧ok■",
            ["think 'a'", "frame '⟦'", "call f {}", "frame '⟧'", "say 'ok'", "end"],
            "TEXT_AFTER_CALL",
        ),
        Case("a</think>¦b■", ["think 'a'", "say '¦b'", "end"], "STRAY_MARKER"),
        Case("", [], "THINKING_UNCLOSED"),
    ],
    "deepseek-v3.1": [
        Case("a</think>b■", ["think 'a'", "say 'b'", "end"]),
        Case("a</think>b", ["think 'a'", "say 'b'"]),
        Case("a■", ["think… 'a'", "end"], "THINKING_UNCLOSED"),
        Case(
            'a</think>b⟦⟨f¦{"x": 1}⟩⟨g¦{}⟩⟧■',
            ["think 'a'", "say 'b'", "frame '⟦'", 'call f {"x": 1}', "call g {}", "frame '⟧'", "end"],
        ),
        Case(
            'a</think>⟦⟨f¦{"x": 1}⟩\n⟨g¦{}⟩⟧■',
            ["think 'a'", "frame '⟦'", 'call f {"x": 1}', "frame '\\n'", "call g {}", "frame '⟧'", "end"],
        ),
        Case("a</think>⟦⟨f¦⟩⟧■", ["think 'a'", "frame '⟦'", "call f ! ''", "frame '⟧'", "end"]),
        Case("a</think>⟦⟨f⟩⟧■", ["think 'a'", "frame '⟦'", "call f ! ''", "frame '⟧'", "end"]),
        Case("a</think>⟦⟨f¦{¦}⟩⟧■", ["think 'a'", "frame '⟦'", "call f ! '{¦}'", "frame '⟧'", "end"], "STRAY_MARKER"),
        Case("a</think>⟦⟧■", ["think 'a'", "frame '⟦'", "frame '⟧'", "end"]),
        Case("a</think>⟦⟨f¦{}⟩■", ["think 'a'", "frame '⟦'", "call f {}", "end"], "SECTION_UNCLOSED"),
        Case(
            "a</think>⟦⟨f¦{}⟩⟧⟦⟨g¦{}⟩⟧■",
            ["think 'a'", "frame '⟦'", "call f {}", "frame '⟧'", "frame '⟦'", "call g {}", "frame '⟧'", "end"],
        ),
        Case("a⟦⟨f¦{}", ["think… 'a'", "frame '⟦'", "call… f {}"], "CALL_IN_THINKING CALL_UNCLOSED SECTION_UNCLOSED"),
        Case("", [], "THINKING_UNCLOSED"),
    ],
    "gpt-oss": [
        Case("@analysis|a;▸@final|b■", ["think 'a'", "say 'b'", "end"]),
        Case("@final|b■", ["say 'b'", "end"]),
        Case(
            '@analysis|a;▸@commentary to=functions.f ~json|{"x": 1}!',
            ["think 'a'", 'call f {"x": 1}', "end"],
        ),
        Case(  # as the template itself writes it
            '@analysis|a;▸ to=functions.f@commentary json|{"x": 1}!',
            ["think 'a'", 'call f {"x": 1}', "end"],
        ),
        Case(' to=functions.f@commentary ~json|{"x": 1}!', ['call f {"x": 1}', "end"]),
        Case(
            "@analysis|a;▸@commentary|I will look.;▸@commentary to=functions.f ~json|{}!",
            ["think 'a'", "say 'I will look.'", "call f {}", "end"],
        ),
        Case(  # parallel: only the last can be ended by the call token
            "@commentary to=functions.f ~json|{};▸@commentary to=functions.g ~json|{}!",
            ["call… f {}", "call g {}", "end"],
            "CALL_UNCLOSED",
        ),
        Case("@analysis to=python code|print(1)!", ["call python ! 'print(1)'", "end"]),
        Case("@analysis|a", ["think… 'a'"], "THINKING_UNCLOSED"),
        Case("@analysis|a■", ["think… 'a'", "end"], "THINKING_UNCLOSED"),
        Case('@analysis|a;▸@commentary to=functions.f ~json|{"x', ["think 'a'", "call… f ! '{\"x'"], "CALL_UNCLOSED"),
        Case("@analysis|a;▸@comm", ["think 'a'", "frame '▸@comm'"], "NO_HEADER"),
        Case("@analysis|a;", ["think 'a'"]),
        Case("@analysis|a;b▸@final|c■", ["think 'a'", "frame 'b'", "say 'c'", "end"], "NO_HEADER"),
        Case("@analysis|a▸@final|b■", ["think… 'a'", "say 'b'", "end"], "THINKING_UNCLOSED"),
        Case("@final|a|b@■", ["say 'a|b@'", "end"], "STRAY_MARKER STRAY_MARKER"),
        Case("hello■", ["frame 'hello'", "end"], "NO_HEADER"),
        Case("|hello■", ["say 'hello'", "end"], "NO_HEADER"),
        Case("@final;▸@final|b■", ["frame '@final;'", "say 'b'", "end"], "NO_HEADER"),
        Case("@commentary to=functions.f ~json|{}■", ["call… f {}", "end"], "CALL_UNCLOSED"),
        Case("@final|b□x", ["say 'b'", "stop", "after 'x'"], "AFTER_END"),
        Case("", []),
    ],
    "glm": [
        Case("\n<think>a</think>\nb■", ["say '\\n'", "think 'a'", "say '\\nb'", "end"]),
        Case("\n<think></think>\nb□", ["say '\\n'", "think ''", "say '\\nb'", "end"]),
        Case("\n<think>a", ["say '\\n'", "think… 'a'"], "THINKING_UNCLOSED"),
        Case(
            "<think>a</think>\n⟨bash\n<arg_key>command</arg_key>\n<arg_value>ls -l</arg_value>\n⟩□",
            ["think 'a'", "say '\\n'", 'call bash {"command": "ls -l"}', "end"],
        ),
        Case(  # the schema says that days is a number and code a text
            "⟨f\n<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n<arg_key>code</arg_key>\n<arg_value>7</arg_value>\n⟩□",
            ['call f {"days": 3, "code": "7"}', "end"],
        ),
        Case(
            '⟨g\n<arg_key>x</arg_key>\n<arg_value>{"y": [1]}</arg_value>\n⟩□',
            ['call g {"x": {"y": [1]}}', "end"],
        ),
        Case("⟨f\n⟩\n⟨g\n⟩□", ["call f {}", "say '\\n'", "call g {}", "end"]),
        Case("⟨f⟩□", ["call f {}", "end"]),
        Case("⟨f\n<arg_key>x</arg_key>\n⟩□", ["call f ! '<arg_key>x</arg_key>\\n'", "end"]),
        Case(
            "⟨f\n<arg_key>x</arg_key>\n<arg_value>1",
            ["call… f ! '<arg_key>x</arg_key>\\n<arg_value>1'"],
            "CALL_UNCLOSED",
        ),
        Case("⟨ba", ["call… ba {}"], "CALL_UNCLOSED"),
        Case(
            "⟨<arg_key>x</arg_key><arg_value>1</arg_value>⟩□",
            ["call  ! '<arg_key>x</arg_key><arg_value>1</arg_value>'", "end"],
        ),
        Case(
            "⟨f<arg_key>x</arg_key><arg_value>\n</arg_value>, <arg_key>y</arg_key>⟩□",
            ["call f ! '<arg_key>x</arg_key><arg_value>\\n</arg_value>, <arg_key>y</arg_key>'", "end"],
        ),
        Case("<think>a⟨f\n⟩□", ["think… 'a'", "call f {}", "end"], "CALL_IN_THINKING"),
        Case("b⟨f⟩c■", ["say 'b'", "call f {}", "say 'c'", "end"], "TEXT_AFTER_CALL"),
        Case("", []),
    ],
    "minimax": [
        Case("a\n</think>\n\nb■", ["think 'a\\n'", "say '\\n\\nb'", "end"]),
        Case("a■", ["think… 'a'", "end"], "THINKING_UNCLOSED"),
        Case("", [], "THINKING_UNCLOSED"),
        Case(
            'a</think>⟨\n<invoke name="f">\n<parameter name="city">Paris</parameter>\n</invoke>\n⟩■',
            ["think 'a'", 'call f {"city": "Paris"}', "end"],
        ),
        Case(  # several calls in one block
            'a</think>b⟨\n<invoke name="f">\n<parameter name="days">3</parameter>\n</invoke>\n'
            '<invoke name="g">\n</invoke>\n⟩■',
            ["think 'a'", "say 'b'", 'call f {"days": 3}', "call g {}", "end"],
        ),
        Case(
            'a</think>⟨<invoke name="f"><parameter name="code">007</parameter>'
            '<parameter name="x">a\nb</parameter></invoke>⟩■',
            ["think 'a'", 'call f {"code": "007", "x": "a\\nb"}', "end"],
        ),
        Case('a</think>⟨<invoke name="f">', ["think 'a'", "call… f ! ''"], "CALL_UNCLOSED"),
        Case(
            'a</think>⟨<invoke name="f"><parameter name="x">1',
            ["think 'a'", "call… f ! '<parameter name=\"x\">1'"],
            "CALL_UNCLOSED",
        ),
        Case(
            'a</think>⟨<invoke name="f"></invoke><invoke name="g">⟩■',
            ["think 'a'", "call f {}", "call g ! ''", "end"],
        ),
        Case(
            'a</think>⟨<invoke name="f"><invoke name="g"></invoke>⟩■', ["think 'a'", "call f ! ''", "call g {}", "end"]
        ),
        Case("a</think>⟨f(x)⟩■", ["think 'a'", "call  ! 'f(x)'", "end"]),
        Case('a</think>⟨so <invoke name="f"></invoke>⟩■', ["think 'a'", "call  ! 'so '", "call f {}", "end"]),
        Case("a</think>⟨⟩■", ["think 'a'", "call  ! ''", "end"]),
        Case(
            'a</think>⟨<invoke name="f">x=1</invoke>⟩■',
            ["think 'a'", "call f ! 'x=1'", "end"],
        ),
        Case('a⟨<invoke name="f"></invoke>⟩■', ["think… 'a'", "call f {}", "end"], "CALL_IN_THINKING"),
        Case(
            'a</think>⟨<invoke name="f"></invoke>⟩b■', ["think 'a'", "call f {}", "say 'b'", "end"], "TEXT_AFTER_CALL"
        ),
    ],
    "gemma": [
        Case("hi■", ["say 'hi'", "end"]),
        Case("hi□", ["say 'hi'", "stop"]),
        Case("hi", ["say 'hi'"]),
        Case("", []),
        Case("■", ["end"]),
        Case("<think>a</think>b■", ["say '<think>a</think>b'", "end"]),
        Case("<tool_call>{}</tool_call>■", ["say '<tool_call>{}</tool_call>'", "end"]),
        Case('{"name": "f", "parameters": {}}■', ['say \'{"name": "f", "parameters": {}}\'', "end"]),
        Case(" \n■", ["say ' \\n'", "end"]),
        Case("a■b■", ["say 'a'", "end", "after 'b■'"], "AFTER_END"),
        Case("a□■", ["say 'a'", "stop", "after '■'"], "AFTER_END"),
        Case("Zürich ½ 🙂■", ["say 'Zürich ½ 🙂'", "end"]),
        Case("a<start_of_turn>b■", ["say 'a<start_of_turn>b'", "end"]),
    ],
    "llama3": [
        Case("hi■", ["say 'hi'", "end"]),
        Case("hi", ["say 'hi'"]),
        Case("hi□", ["say 'hi'", "stop"]),
        Case('⟨{"name": "f", "parameters": {"x": 1}}▪', ['call f {"x": 1}', "end"]),
        Case('{"name": "f", "parameters": {"x": 1}}■', ['call f {"x": 1}', "end"]),
        Case('{"name": "f", "parameters": {}}; {"name": "g", "arguments": {}}■', ["call f {}", "call g {}", "end"]),
        Case('⟨{"name": "f", "parameters": {}};{"name": "g"}▪', ["call f {}", "call g {}", "end"]),
        Case('look:⟨{"name": "f", "parameters": {}}▪', ["say 'look:'", "call f {}", "end"]),
        Case('{"name": "f", "parameters": {"x', ["call… f ! '{\"x'"], "CALL_UNCLOSED"),
        Case('⟨{"name": "f", "parameters": {}}', ["call… f {}"], "CALL_UNCLOSED"),
        Case('{"name": "f"', ['call… f ! \'{"name": "f"\''], "CALL_UNCLOSED"),
        Case('{"city": "Paris"}■', ['say \'{"city": "Paris"}\'', "end"]),
        Case('so {"name": "f", "parameters": {}}■', ['say \'so {"name": "f", "parameters": {}}\'', "end"]),
        Case("⟨print(1)▪", ["call  ! 'print(1)'", "end"]),
        Case("⟨▪", ["call  ! ''", "end"]),
        Case('⟨{"name": "f", "parameters": {}}⟨{"name": "g"}▪', ["call… f {}", "call g {}", "end"], "CALL_UNCLOSED"),
        Case("", []),
    ],
    "smollm2": [
        Case("hi■", ["say 'hi'", "end"]),
        Case("hi□", ["say 'hi□'"]),  # its generation config does not stop there
        Case("hi", ["say 'hi'"]),
        Case("", []),
        Case("■", ["end"]),
        Case("\n■", ["say '\\n'", "end"]),
        Case("<think>a</think>■", ["say '<think>a</think>'", "end"]),
        Case('<tool_call>{"name": "f"}</tool_call>■', ['say \'<tool_call>{"name": "f"}</tool_call>\'', "end"]),
        Case('{"name": "f", "parameters": {}}■', ['say \'{"name": "f", "parameters": {}}\'', "end"]),
        Case("a<|im_start|>b■", ["say 'a<|im_start|>b'", "end"]),
        Case("a■\n", ["say 'a'", "end", "after '\\n'"], "AFTER_END"),
        Case("½🙂", ["say '½🙂'"]),
    ],
}
