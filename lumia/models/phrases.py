"""What the offline model can read and say, language by language: data only.

`tells` are statements (fact, pattern), `asks` questions (what is asked, pattern). In a pattern `v` is the value and `p`
the person it is about; without `p` it is the one who speaks. The first match counts.
"""
# ruff: noqa: E501  (a pattern or a sentence is easier to read and to compare on one line)

from __future__ import annotations

from dataclasses import dataclass, field

Patterns = tuple[tuple[str, str], ...]
_NAME = r"(?P<p>[^\W\d_][\w-]{0,30})"
_NOT_A_PERSON = "I|He|She|It|They|We|You|Who|What|This|That|Er|Sie|Es|Wer|Il|Elle|Qui|Quien|Ich|Je|Yo"
_PERSON = rf"(?P<p>(?-i:(?!(?:{_NOT_A_PERSON})\b)[A-ZÀ-Þ][\w-]{{0,30}}))"
_V = r"(?P<v>.+)"


@dataclass(frozen=True)
class Language:
    """One language: its words for each intent, its patterns, and its sentences."""

    code: str
    marks: str
    greetings: str
    farewells: str
    thanks: str
    helps: str
    identity: str
    date: str
    time: str
    remember: str
    question: str
    tells: Patterns
    asks: Patterns
    days: tuple[str, ...]
    says: dict[str, str] = field(repr=False)


EN = Language(
    code="en",
    marks="the is are was what who where when how why do does did my your i am you and of to in it that this not with please",
    greetings=r"hi|hello|hey|hiya|greetings|good (?:morning|afternoon|evening|day)",
    farewells=r"bye|goodbye|good night|see you|farewell|cya",
    thanks=r"thanks|thank you|thx|cheers|much appreciated",
    helps=r"/?help|what can you do|what do you do|how do you work",
    identity=r"(?:what|who) (?:exactly )?are you|are you (?:an? )?(?:bot|robot|human|person|real|ai|llm|language model|neural network|machine)"
    r"|what(?:'s| is) your name|which model are you|what model",
    date=r"what(?:'s| is)? (?:the )?(?:date|day)(?: is it)?|today's date|what day is (?:it|today)|which day is it",
    time=r"what(?:'s| is)? (?:the )?time|what time is it",
    remember=r"(?:please )?(?:remember|note|keep in mind|don't forget)(?: that|:)?\s+",
    question=r"(?:what|who|whom|whose|where|when|why|how|which|is|are|was|were|do|does|did|can|could|will|would|should)\b",
    tells=(
        ("name", rf"(?:my name is|my name's|my name was|i am called|i'm called|call me|you can call me|i go by) {_V}"),
        ("name", r"(?:i am|i'm) (?P<v>(?-i:[A-Z][a-z]+))"),
        ("home", rf"(?:and )?i(?: now)?(?: currently)? live (?:in|at|near|on) {_V}"),
        ("home", rf"(?:and )?(?:i have|i've|i) (?:just |now )?moved to {_V}"),
        ("home", rf"{_PERSON} (?:now )?lives (?:in|at|near|on) {_V}"),
        ("origin", rf"(?:and )?(?:i am|i'm|i come) from {_V}"),
        ("dislike", rf"(?:and )?i (?:do not|don't|really don't|no longer|can't) (?:really )?(?:like|love|enjoy|stand) {_V}"),
        ("dislike", rf"(?:and )?i (?:really )?(?:hate|dislike) {_V}"),
        ("like", rf"(?:and )?i (?:also |really |still |do )*(?:like|love|enjoy|adore|prefer) {_V}"),
        ("dislike", rf"{_PERSON} (?:does not|doesn't|no longer) (?:like|love|enjoy)s? {_V}"),
        ("dislike", rf"{_PERSON} (?:hates|dislikes) {_V}"),
        ("like", rf"{_PERSON} (?:also |really )?(?:likes|loves|enjoys|adores|prefers) {_V}"),
    ),
    asks=(
        ("name", r"what(?:'s| is|s| was)? my (?:first )?name|who am i|(?:know|remember|tell me|say) my name|what am i called"),
        ("home", r"where (?:do )?i live|where is my home"),
        ("origin", r"where (?:am i|do i come) from"),
        ("like", r"what do i (?:like|love|enjoy|prefer)"),
        ("home", rf"where (?:does|is) {_NAME} live"),
        ("like", rf"what does {_NAME} (?:like|love|enjoy|prefer)"),
        ("who_like", rf"who (?:else )?(?:also )?(?:likes?|loves?|enjoys?|adores?|prefers?) {_V}"),
        ("who_home", rf"who (?:else )?lives? (?:in|at|near|on) {_V}"),
        ("said", rf"what (?:did|has|does) {_NAME} (?:say|said|write|mention|tell \w+|told \w+|think) (?:about|regarding|on|of) {_V}"),
        ("said", rf"what (?:did|has) {_NAME} (?:say|said|write|mention)"),
    ),
    days=("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),
    says={
        "hello": "Hello!", "hello_name": "Hello, {v}!", "bye": "Goodbye!", "thanks": "You're welcome.", "you": "you",
        "identity": "I am {bot}'s offline model: rules, no neural network. Give me a key with OPENAI_API_KEY=… and "
        "LUMIA_MODEL=openai-chat:gpt-4o-mini, or any other model (docs/models.md), and I can really answer.",
        "help": "I am an offline model, so I can only greet, remember what is said in this chat, answer from it (“my name is Ann” "
        "… “what is my name?”), do sums and tell the date. A real model needs LUMIA_MODEL and its key (docs/models.md).",
        "noted": "Noted: {v}", "unknown": "I don't know that: nobody has told me in this chat, and I answer by rules (offline model).",
        "you_said": "You said: “{v}”", "said": "{p} said: “{v}”", "told": "I was told: “{v}”", "quote": "“{v}”",
        "silent": "I find nothing {p} said about that in this chat.", "today": "Today is {day}, {date}.", "now": "It is {time}.",
        "dated": "{d}: {q}", "no_sum": "That has no result.", "empty": "I'm listening.", "summary": "{n} messages; the last: {v}",
        "name_you": "Your name is {v}.", "home_you": "You live in {v}.", "origin_you": "You come from {v}.",
        "like_you": "You like {v}.", "dislike_you": "You don't like {v}.", "name": "{p} is called {v}.",
        "home": "{p} lives in {v}.", "origin": "{p} comes from {v}.", "like": "{p} likes {v}.", "dislike": "{p} doesn't like {v}.",
    },
)  # fmt: skip

ZH = Language(
    code="zh",
    marks="",
    greetings=r"你好|您好|嗨|哈喽|大家好|早上好|下午好|晚上好|早安|hello|hi",
    farewells=r"再见|拜拜|晚安|回头见|下次见",
    thanks=r"谢谢|多谢|感谢|谢啦",
    helps=r"/?help|帮助|/帮助|你(?:会|能)(?:做|干)?(?:什么|啥)|怎么用",
    identity=r"你(?:到底)?是(?:谁|什么|哪位|(?:机器人|真人|人工智能|ai|模型)[吗么]?)|你叫什么|你是不是(?:机器人|人|ai)|自我介绍|什么模型",
    date=r"今天(?:是)?(?:几号|几月几号|星期几|周几|礼拜几|什么日子)|今天的?日期",
    time=r"(?:现在)?几点(?:了|钟)?$|现在(?:是)?(?:什么时间|几点)",
    remember=r"(?:请)?(?:记住|记得|记一下|别忘了)[:：,，]?\s*",
    question=r".*(?:什么|谁|哪|几|吗|呢|怎么|为什么|多少|是不是|有没有)",
    tells=(
        ("name", rf"(?:我|俺)(?:的名字)?(?:叫做|叫|是叫|名叫|的名字是){_V}"),
        ("name", rf"(?:我的名字是|请?叫我|你可以叫我){_V}"),
        ("home", rf"我(?:现在|目前)?(?:住在|住|搬到|搬去){_V}"),
        ("origin", rf"我(?:来自|是从){_V}"),
        ("dislike", rf"我(?:很|最|真的|现在)?(?:不喜欢|讨厌|不爱|不再喜欢){_V}"),
        ("like", rf"我(?:很|最|非常|也|真的|特别|还|更)*(?:喜欢|喜爱|爱)(?!的){_V}"),
        ("home", rf"(?P<p>(?![我你他她它谁])\w{{1,8}}?)(?:住在|搬到了?){_V}"),
        ("dislike", rf"(?P<p>(?![我你他她它谁])\w{{1,8}}?)(?:不喜欢|讨厌|不爱){_V}"),
        ("like", rf"(?P<p>(?![我你他她它谁])\w{{1,8}}?)(?:很|最|非常|也|特别)?(?:喜欢|爱){_V}"),
    ),
    asks=(
        ("name", r"我(?:叫|的名字(?:是|叫)?|是叫)(?:什么|啥|甚么)|我是谁|(?:记得|知道)我的名字|我叫谁"),
        ("home", r"我(?:现在)?(?:住|家)(?:在)?(?:哪|什么地方|何处)"),
        ("origin", r"我(?:来自|是从)(?:哪|什么地方)"),
        ("like", r"我(?:最)?(?:喜欢|爱)(?:吃|喝|玩|看|做|听)?(?:什么|啥|谁)"),
        ("who_like", r"(?:谁|哪个人|哪位|有谁)(?:最|也|还)?(?:喜欢|爱)(?P<v>[^?？]+)"),
        ("who_home", r"(?:谁|有谁)住(?:在)?(?P<v>[^?？]+)"),
        ("home", r"(?P<p>\w{1,12}?)(?:现在)?住(?:在)?(?:哪|什么地方)"),
        ("like", r"(?P<p>\w{1,12}?)(?:最)?(?:喜欢|爱)(?:吃|喝|玩|看|做|听)?(?:什么|啥)"),
        ("said", r"(?P<p>\w{1,12}?)(?:关于|对|对于|谈到)(?P<v>.+?)(?:说|讲|提到|有)(?:了|过)?(?:些)?(?:什么|啥)"),
        ("said", r"(?P<p>\w{1,12}?)(?:刚才|刚刚|之前)?(?:说|讲|提到)(?:了|过)?(?:些)?(?:什么|啥)"),
    ),
    days=("星期一", "星期二", "星期三", "星期四", "星期五", "星期六", "星期日"),
    says={
        "hello": "你好！", "hello_name": "你好，{v}！", "bye": "再见！", "thanks": "不客气。", "you": "你",
        "identity": "我是 {bot} 的离线模型：只有规则，没有神经网络。设置 OPENAI_API_KEY=… 和 LUMIA_MODEL=openai-chat:gpt-4o-mini"
        "（或别的模型，见 docs/models.md），我才能真正回答。",
        "help": "我是离线模型：只会打招呼、记住这个聊天里说过的话并据此回答（“我叫小明”……“我叫什么？”）、做算术、报日期。"
        "要用真正的模型，请设置 LUMIA_MODEL 和密钥（docs/models.md）。",
        "noted": "记住了：{v}", "unknown": "我不知道：这个聊天里没人告诉过我，而我只按规则回答（离线模型）。",
        "you_said": "你说过：“{v}”", "said": "{p}说过：“{v}”", "told": "我被告知：“{v}”", "quote": "“{v}”",
        "silent": "我没有找到{p}关于这个说过的话。", "today": "今天是{date}，{day}。", "now": "现在是{time}。",
        "dated": "{d}：{q}", "no_sum": "这个算式没有结果。", "empty": "我在听。", "summary": "{n} 条消息；最后一条：{v}",
        "name_you": "你叫{v}。", "home_you": "你住在{v}。", "origin_you": "你来自{v}。", "like_you": "你喜欢{v}。",
        "dislike_you": "你不喜欢{v}。", "name": "{p}叫{v}。", "home": "{p}住在{v}。", "origin": "{p}来自{v}。",
        "like": "{p}喜欢{v}。", "dislike": "{p}不喜欢{v}。",
    },
)  # fmt: skip

_JA_I = "(?:私|わたし|僕|ぼく|俺|おれ)"
JA = Language(
    code="ja",
    marks="",
    greetings=r"こんにちは|こんばんは|おはよう(?:ございます)?|やあ|はじめまして|もしもし",
    farewells=r"さようなら|さよなら|またね|おやすみ|じゃあね|バイバイ",
    thanks=r"ありがとう|感謝|どうも",
    helps=r"/?help|ヘルプ|何ができ|なにができ|使い方",
    identity=r"(?:あなた|君|きみ|お前)は(?:誰|だれ|何|なに|どなた|人間|ロボット|ボット|ai)|自己紹介|(?:あなた|君)の名前",
    date=r"今日(?:は)?(?:何日|何曜日|なんにち|何月何日)|今日の日付",
    time=r"(?:今(?:は)?)?何時(?:です|ですか)?$",
    remember=r"(?:覚えて(?:おいて|ください|ね)?|メモして)[:：、,]?\s*",
    question=r".*(?:か|何|なに|誰|だれ|どこ|いつ|なぜ|どう|いくつ)\s*$",
    tells=(
        ("name", rf"{_JA_I}の名前は(?P<v>.+?)(?:です|だよ|だ|といいます|と言います)?"),
        ("name", rf"(?:{_JA_I}は)?(?P<v>[^\s、はが]+?)と(?:申します|いいます|言います)"),
        ("home", rf"(?:{_JA_I}は)?(?P<v>[^はが]+?)に(?:住んで(?:い)?(?:ます|る)|引っ越し(?:ました|た))"),
        ("origin", rf"(?:{_JA_I}は)?(?P<v>[^はが]+?)(?:から来ました|の?出身(?:です|だ)?)"),
        ("dislike", rf"{_JA_I}は(?P<v>.+?)(?:が|は)(?:嫌い|きらい|好きではありません|好きじゃない|好きではない).*"),
        ("like", rf"{_JA_I}[はも](?P<v>.+?)が(?:大好き|好き)(?:です|だ|だよ)?"),
        ("like", r"(?P<v>[^はが]+?)が(?:大好き|好き)(?:です|だ|だよ)?"),
        ("home", r"(?P<p>[^\s私僕俺は]{1,12}?)(?:さん|くん|ちゃん)?は(?P<v>.+?)に住んで(?:い)?(?:ます|る)"),
        ("like", r"(?P<p>[^\s私僕俺は]{1,12}?)(?:さん|くん|ちゃん)?[はも](?P<v>.+?)が(?:大好き|好き)(?:です|だ)?"),
    ),
    asks=(
        ("name", rf"{_JA_I}の名前(?:は|って|を|何|わかり|知って|覚えて)|{_JA_I}は(?:誰|だれ)"),
        ("home", rf"{_JA_I}は?(?:どこ|何処)に住ん"),
        ("origin", rf"{_JA_I}は?(?:どこ|何処)(?:から来|の?出身)"),
        ("like", rf"{_JA_I}は?(?:何|なに)が(?:大)?好き"),
        ("who_like", r"(?:誰|だれ)が(?P<v>.+?)(?:が|を|のことが)(?:大)?好き"),
        ("who_like", r"(?P<v>.+?)が(?:大)?好きな(?:人|の|方)は(?:誰|だれ)"),
        ("who_home", r"(?:誰|だれ)が(?P<v>.+?)に住ん"),
        ("home", r"(?P<p>[^\sは]{1,12}?)(?:さん|くん|ちゃん)?は(?:どこ|何処)に住ん"),
        ("like", r"(?P<p>[^\sは]{1,12}?)(?:さん|くん|ちゃん)?は(?:何|なに)が(?:大)?好き"),
        ("said", r"(?P<p>[^\sは]{1,12}?)(?:さん|くん|ちゃん)?は(?P<v>.+?)について(?:何|なん|なに)(?:と|て|を)?(?:言|いい|話)"),
        ("said", r"(?P<p>[^\sは]{1,12}?)(?:さん|くん|ちゃん)?は(?:何|なん|なに)(?:と|て|を)?(?:言|いい|話)"),
    ),
    days=("月曜日", "火曜日", "水曜日", "木曜日", "金曜日", "土曜日", "日曜日"),
    says={
        "hello": "こんにちは！", "hello_name": "こんにちは、{v}さん！", "bye": "さようなら！", "thanks": "どういたしまして。", "you": "あなた",
        "identity": "私は {bot} のオフラインモデルです。ニューラルネットワークではなく規則だけで動きます。OPENAI_API_KEY=… と "
        "LUMIA_MODEL=openai-chat:gpt-4o-mini（または他のモデル、docs/models.md）を設定すると本当に答えられます。",
        "help": "私はオフラインモデルです。挨拶、このチャットで聞いたことを覚えて答えること（「私の名前は花子です」…「私の名前は何？」）、"
        "計算、日付ができます。本物のモデルには LUMIA_MODEL とキーが必要です（docs/models.md）。",
        "noted": "覚えました：{v}", "unknown": "わかりません。このチャットで聞いていませんし、私は規則で答えています（オフラインモデル）。",
        "you_said": "あなたは「{v}」と言いました。", "said": "{p}さんは「{v}」と言いました。", "told": "「{v}」と聞いています。", "quote": "「{v}」",
        "silent": "それについて{p}さんの発言は見つかりません。", "today": "今日は{date}、{day}です。", "now": "今は{time}です。",
        "dated": "{d}：{q}", "no_sum": "その式には答えがありません。", "empty": "聞いています。", "summary": "メッセージ {n} 件、最後：{v}",
        "name_you": "あなたの名前は{v}です。", "home_you": "あなたは{v}に住んでいます。", "origin_you": "あなたは{v}の出身です。",
        "like_you": "あなたは{v}が好きです。", "dislike_you": "あなたは{v}が好きではありません。", "name": "{p}さんの名前は{v}です。",
        "home": "{p}さんは{v}に住んでいます。", "origin": "{p}さんは{v}の出身です。", "like": "{p}さんは{v}が好きです。",
        "dislike": "{p}さんは{v}が好きではありません。",
    },
)  # fmt: skip

DE = Language(
    code="de",
    marks="ich ist bin bist sind mein meine meinen wie was wo wer wann der die das ein eine und nicht wohne heisse heiße heißt mag du "
    "mit auf über hat dass bitte hallo danke tschüss guten moin servus weißt kannst",
    greetings=r"hallo|guten (?:tag|morgen|abend)|moin|servus|grüß gott|grüezi|hi",
    farewells=r"tschüss|tschüs|auf wiedersehen|bis bald|bis später|gute nacht|ciao",
    thanks=r"danke|vielen dank|dankeschön",
    helps=r"/?help|hilfe|was kannst du",
    identity=r"(?:wer|was) bist du|bist du (?:ein(?:e)? )?(?:bot|roboter|mensch|ki|echt|maschine)|wie hei(?:ß|ss)t du",
    date=r"welche(?:r|n|s)? (?:tag|datum)|(?:was|welches) (?:ist )?(?:das )?(?:heutige )?datum|der wievielte",
    time=r"wie spät|wie viel uhr|wieviel uhr",
    remember=r"(?:bitte )?(?:merke? dir|denk dran|denke daran|vergiss nicht)(?:,)?(?: dass|:)?\s+",
    question=r"(?:was|wer|wen|wem|wo|woher|wann|warum|wie|welche[rsn]?|ist|sind|bin|bist|hat|hast|kann|kannst)\b",
    tells=(
        ("name", rf"(?:ich hei(?:ß|ss)e|mein name ist|nenn mich|ich werde \w+ genannt) {_V}"),
        ("name", r"ich bin (?:der |die )?(?P<v>(?-i:[A-ZÄÖÜ][a-zäöüß]+))"),
        ("home", rf"(?:und )?ich (?:wohne|lebe)(?: jetzt)? (?:in|bei|auf|am|an) {_V}"),
        ("home", rf"{_PERSON} (?:wohnt|lebt) (?:in|bei|auf|am|an) {_V}"),
        ("origin", rf"(?:und )?ich komme aus {_V}"),
        ("dislike", r"(?:und )?ich (?:mag|liebe|esse|trinke) (?:keine[nm]?|kein|nicht) (?P<v>.+)"),
        ("dislike", r"(?:und )?ich mag (?P<v>.+?) (?:nicht|nicht mehr)"),
        ("dislike", rf"(?:und )?ich hasse {_V}"),
        ("like", rf"(?:und )?ich (?:mag|liebe)(?: sehr)?(?: gern(?:e)?)? {_V}"),
        ("dislike", rf"{_PERSON} (?:mag|liebt) (?:keine[nm]?|kein) {_V}"),
        ("like", rf"{_PERSON} (?:mag|liebt) {_V}"),
    ),
    asks=(
        ("name", r"wie hei(?:ß|ss)e ich|(?:wie|was) ist mein name|wer bin ich|wei(?:ß|ss)t du,? (?:noch,? )?wie ich hei(?:ß|ss)e"),
        ("home", r"wo (?:wohne|lebe) ich"),
        ("origin", r"woher komme ich"),
        ("like", r"was (?:mag|liebe) ich"),
        ("home", rf"wo (?:wohnt|lebt) {_NAME}"),
        ("like", rf"was (?:mag|liebt) {_NAME}"),
        ("who_like", rf"wer (?:mag|liebt|trinkt gern(?:e)?|isst gern(?:e)?) {_V}"),
        ("who_home", rf"wer (?:wohnt|lebt) (?:in|bei|auf|am|an) {_V}"),
        ("said", rf"was (?:hat|sagte|sagt|habe) {_NAME} (?:über|von|zum?|zur) (?P<v>.+?)(?: gesagt| erzählt| geschrieben)?[\s?!.]*$"),
        ("said", rf"was (?:hat|habe) {_NAME} (?:gesagt|erzählt|geschrieben)"),
    ),
    days=("Montag", "Dienstag", "Mittwoch", "Donnerstag", "Freitag", "Samstag", "Sonntag"),
    says={
        "hello": "Hallo!", "hello_name": "Hallo, {v}!", "bye": "Auf Wiedersehen!", "thanks": "Gern geschehen.", "you": "du",
        "identity": "Ich bin das Offline-Modell von {bot}: Regeln, kein neuronales Netz. Mit OPENAI_API_KEY=… und "
        "LUMIA_MODEL=openai-chat:gpt-4o-mini oder einem anderen Modell (docs/models.md) kann ich wirklich antworten.",
        "help": "Ich bin ein Offline-Modell: Ich grüße, merke mir, was in diesem Chat gesagt wird, antworte daraus („ich heiße Anna“ … "
        "„wie heiße ich?“), rechne und nenne das Datum. Ein echtes Modell braucht LUMIA_MODEL und einen Schlüssel (docs/models.md).",
        "noted": "Notiert: {v}", "unknown": "Das weiß ich nicht: In diesem Chat hat es niemand gesagt, und ich antworte nach Regeln (Offline-Modell).",
        "you_said": "Du hast gesagt: „{v}“", "said": "{p} hat gesagt: „{v}“", "told": "Mir wurde gesagt: „{v}“", "quote": "„{v}“",
        "silent": "Ich finde nichts, was {p} dazu gesagt hat.", "today": "Heute ist {day}, {date}.", "now": "Es ist {time}.",
        "dated": "{d}: {q}", "no_sum": "Das hat kein Ergebnis.", "empty": "Ich höre zu.", "summary": "{n} Nachrichten; die letzte: {v}",
        "name_you": "Du heißt {v}.", "home_you": "Du wohnst in {v}.", "origin_you": "Du kommst aus {v}.", "like_you": "Du magst {v}.",
        "dislike_you": "Du magst {v} nicht.", "name": "{p} heißt {v}.", "home": "{p} wohnt in {v}.", "origin": "{p} kommt aus {v}.",
        "like": "{p} mag {v}.", "dislike": "{p} mag {v} nicht.",
    },
)  # fmt: skip

ES = Language(
    code="es",
    marks="el la los las un una es soy eres mi mis tu que qué cómo dónde cuándo quién cuál y no de en vivo llamo gusta por para con "
    "hola gracias adiós buenos buenas hasta luego está",
    greetings=r"hola|buenos días|buenas tardes|buenas noches|buenas|saludos",
    farewells=r"adiós|adios|hasta luego|hasta pronto|hasta mañana|chao",
    thanks=r"gracias|muchas gracias",
    helps=r"/?help|ayuda|qué puedes hacer|que puedes hacer",
    identity=r"(?:quién|quien|qué|que) eres|eres (?:un )?(?:bot|robot|humano|persona|máquina|ia)|c[oó]mo te llamas",
    date=r"qu[eé] (?:día|fecha)(?: es)?|cu[aá]l es la fecha|fecha de hoy",
    time=r"qu[eé] hora",
    remember=r"(?:por favor )?(?:recuerda|acu[eé]rdate de|no olvides|anota)(?: que|:)?\s+",
    question=r"¿|(?:qué|quién|dónde|cuándo|cómo|cuál|por qué|cuánto|a quién|de dónde)\b",
    tells=(
        ("name", rf"(?:yo )?(?:me llamo|mi nombre es|ll[aá]mame) {_V}"),
        ("name", r"(?:yo )?soy (?P<v>(?-i:[A-ZÁÉÍÓÚÑ][a-záéíóúñ]+))"),
        ("home", rf"(?:y )?(?:yo )?(?:ahora )?vivo en {_V}"),
        ("home", rf"{_PERSON} vive en {_V}"),
        ("origin", rf"(?:y )?(?:yo )?(?:soy|vengo) de {_V}"),
        ("dislike", rf"(?:y )?(?:a mí )?no me gustan? {_V}"),
        ("like", rf"(?:y )?(?:a mí )?me (?:gustan?|encantan?)(?: mucho)? {_V}"),
        ("dislike", rf"a {_PERSON} no le gustan? {_V}"),
        ("like", rf"a {_PERSON} le (?:gustan?|encantan?) {_V}"),
    ),
    asks=(
        ("name", r"c[oó]mo me llamo|cu[aá]l es mi nombre|qui[eé]n soy yo|qui[eé]n soy"),
        ("origin", r"de d[oó]nde (?:soy|vengo)"),
        ("home", r"d[oó]nde vivo"),
        ("like", r"qu[eé] me gusta"),
        ("home", rf"d[oó]nde vive {_NAME}"),
        ("like", rf"qu[eé] le gusta a {_NAME}"),
        ("who_like", rf"a qui[eé]n(?:es)? le(?:s)? (?:gustan?|encantan?) {_V}"),
        ("who_home", rf"qui[eé]n vive en {_V}"),
        ("said", rf"qu[eé] (?:dijo|ha dicho|dije|cont[oó]) {_NAME} (?:sobre|de|acerca de) {_V}"),
        ("said", rf"qu[eé] (?:dijo|ha dicho) {_NAME}"),
    ),
    days=("lunes", "martes", "miércoles", "jueves", "viernes", "sábado", "domingo"),
    says={
        "hello": "¡Hola!", "hello_name": "¡Hola, {v}!", "bye": "¡Adiós!", "thanks": "De nada.", "you": "tú",
        "identity": "Soy el modelo sin conexión de {bot}: reglas, ninguna red neuronal. Con OPENAI_API_KEY=… y "
        "LUMIA_MODEL=openai-chat:gpt-4o-mini u otro modelo (docs/models.md) puedo responder de verdad.",
        "help": "Soy un modelo sin conexión: saludo, recuerdo lo que se dice en este chat, respondo con ello («me llamo Ana» … «¿cómo me "
        "llamo?»), calculo y digo la fecha. Un modelo de verdad necesita LUMIA_MODEL y su clave (docs/models.md).",
        "noted": "Anotado: {v}", "unknown": "No lo sé: nadie lo ha dicho en este chat y respondo con reglas (modelo sin conexión).",
        "you_said": "Dijiste: «{v}»", "said": "{p} dijo: «{v}»", "told": "Me dijeron: «{v}»", "quote": "«{v}»",
        "silent": "No encuentro nada que {p} haya dicho sobre eso.", "today": "Hoy es {day}, {date}.", "now": "Son las {time}.",
        "dated": "{d}: {q}", "no_sum": "Eso no tiene resultado.", "empty": "Te escucho.", "summary": "{n} mensajes; el último: {v}",
        "name_you": "Te llamas {v}.", "home_you": "Vives en {v}.", "origin_you": "Eres de {v}.", "like_you": "Te gusta {v}.",
        "dislike_you": "No te gusta {v}.", "name": "{p} se llama {v}.", "home": "{p} vive en {v}.", "origin": "{p} es de {v}.",
        "like": "A {p} le gusta {v}.", "dislike": "A {p} no le gusta {v}.",
    },
)  # fmt: skip

FR = Language(
    code="fr",
    marks="le la les un une est suis es mon ma mes ton ta et ne pas je tu qui que quoi où quand comment quel quelle au du des dans avec "
    "j'habite j'aime bonjour merci salut bonsoir s'appelle m'appelle revoir",
    greetings=r"bonjour|bonsoir|salut|coucou",
    farewells=r"au revoir|à bientôt|bonne nuit|à demain|à plus",
    thanks=r"merci",
    helps=r"/?help|aide|à l'aide|que (?:peux|sais)-tu faire|qu'est-ce que tu (?:peux|sais) faire",
    identity=r"(?:qui|qu') ?(?:es-tu|êtes-vous)|tu es (?:qui|quoi)|es-tu (?:un )?(?:bot|robot|humain|ia|machine)|comment (?:tu t'appelles|t'appelles-tu)",
    date=r"quel jour|quelle (?:est la )?date|on est quel jour",
    time=r"quelle heure",
    remember=r"(?:s'il te plaît )?(?:souviens-toi|rappelle-toi|retiens|note|n'oublie pas)(?: que|:)?\s+",
    question=r"(?:qui|que|quoi|où|quand|comment|pourquoi|quel(?:le)?s?|combien|est-ce|qu'est-ce|d'où)\b",
    tells=(
        ("name", rf"(?:moi )?(?:je m'appelle|mon nom est|mon prénom est|appelle-moi) {_V}"),
        ("name", r"je suis (?P<v>(?-i:[A-ZÀ-Þ][a-zà-ÿ]+))"),
        ("home", rf"(?:et )?(?:maintenant )?j'habite (?:à |au |en |aux |dans )?{_V}"),
        ("home", rf"(?:et )?je vis (?:à|au|en|aux|dans) {_V}"),
        ("home", rf"{_PERSON} (?:habite|vit) (?:à |au |en |aux |dans )?{_V}"),
        ("origin", rf"(?:et )?je (?:viens|suis) (?:de |d'|du ){_V}"),
        ("dislike", rf"(?:et )?je n'aime (?:pas|plus)(?: le | la | les | l'| du | de )?\s*{_V}"),
        ("dislike", rf"(?:et )?je déteste {_V}"),
        ("like", rf"(?:et )?j'(?:aime|adore)(?: bien| beaucoup)? {_V}"),
        ("dislike", rf"{_PERSON} n'aime pas {_V}"),
        ("like", rf"{_PERSON} (?:aime|adore) {_V}"),
    ),
    asks=(
        ("name", r"comment (?:est-ce que )?je m'appelle|comment m'appell?[eé]-je|quel est mon (?:nom|prénom)|qui suis-je"),
        ("origin", r"d'où (?:est-ce que )?(?:je viens|viens-je)"),
        ("home", r"où (?:est-ce que )?(?:j'habite|je vis|habit[eé]-je|vis-je)"),
        ("like", r"qu'est-ce que j'(?:aime|adore)|qu'aim[eé]-je"),
        ("home", rf"où (?:est-ce que )?(?:habite|vit) {_NAME}"),
        ("like", rf"qu'est-ce que {_NAME} (?:aime|adore)"),
        ("like", rf"qu'aime {_NAME}"),
        ("who_like", rf"qui (?:aime|adore) {_V}"),
        ("who_home", rf"qui (?:habite|vit) (?:à |au |en |aux |dans )?{_V}"),
        ("said", rf"qu'a dit {_NAME} (?:sur|de|du|à propos d[eu]|au sujet d[eu]) {_V}"),
        ("said", rf"qu'est-ce que {_NAME} a dit (?:sur|de|du|à propos d[eu]|au sujet d[eu]) {_V}"),
        ("said", rf"qu'a dit {_NAME}"),
        ("said", rf"qu'est-ce que {_NAME} a dit"),
    ),
    days=("lundi", "mardi", "mercredi", "jeudi", "vendredi", "samedi", "dimanche"),
    says={
        "hello": "Bonjour !", "hello_name": "Bonjour, {v} !", "bye": "Au revoir !", "thanks": "Je t'en prie.", "you": "toi",
        "identity": "Je suis le modèle hors ligne de {bot} : des règles, aucun réseau de neurones. Avec OPENAI_API_KEY=… et "
        "LUMIA_MODEL=openai-chat:gpt-4o-mini ou un autre modèle (docs/models.md), je peux vraiment répondre.",
        "help": "Je suis un modèle hors ligne : je salue, je retiens ce qui se dit ici, j'y réponds (« je m'appelle Anne » … « comment je "
        "m'appelle ? »), je calcule et je donne la date. Un vrai modèle demande LUMIA_MODEL et sa clé (docs/models.md).",
        "noted": "Noté : {v}", "unknown": "Je ne sais pas : personne ne l'a dit ici, et je réponds par des règles (modèle hors ligne).",
        "you_said": "Tu as dit : « {v} »", "said": "{p} a dit : « {v} »", "told": "On m'a dit : « {v} »", "quote": "« {v} »",
        "silent": "Je ne trouve rien que {p} ait dit là-dessus.", "today": "Nous sommes {day}, le {date}.", "now": "Il est {time}.",
        "dated": "{d} : {q}", "no_sum": "Cela n'a pas de résultat.", "empty": "J'écoute.", "summary": "{n} messages ; le dernier : {v}",
        "name_you": "Tu t'appelles {v}.", "home_you": "Tu habites à {v}.", "origin_you": "Tu viens de {v}.", "like_you": "Tu aimes {v}.",
        "dislike_you": "Tu n'aimes pas {v}.", "name": "{p} s'appelle {v}.", "home": "{p} habite à {v}.", "origin": "{p} vient de {v}.",
        "like": "{p} aime {v}.", "dislike": "{p} n'aime pas {v}.",
    },
)  # fmt: skip

LANGUAGES = {language.code: language for language in (EN, ZH, JA, DE, ES, FR)}
