"""Patterns by which a line of a chat is judged: data only, for Chinese, English and Japanese (`asking`, `relevance`).

They are searched without regard to case in texts where Latin and Chinese letters are a space apart (`asking.spaced`), and
most of them hold for both languages at once, since people mix them.
"""
# ruff: noqa: E501  (a pattern is easier to read and to compare on one line)

from __future__ import annotations

from lumia.models.words import HAN_KANA

# --- what a text is after

URL = r"https?://\S+"
MARK = r"[?？]"
SEAM = rf"(?<=[{HAN_KANA}])(?=[a-z0-9])|(?<=[a-z0-9])(?=[{HAN_KANA}])"
ZH_ASKS = (
    r"(?<!没)什么(?!的|都|也|好|可|大不|了不|用|就)|(?<!没)啥(?!的|都|也)|咋|怎[么样](?!都|也)|如何|为何|(?<!天)哪(?!怕|都|也)|(?<!不管)谁(?!都|也|应|让)|"
    r"(?<![好十百没这那前过上后第])几(?!乎|率|何|次三)|多少(?!年没|次了|人都)|多[大久长远高贵重厚紧松粗细宽浓快慢深](?!了|啊)|吗|(?<=\w{3})(?:不|没|没有|与否)(?=[\s,，。.!！~～]*\Z)|(?:\A|[\s,，])(?:那|如果|要是|万一|假如|而)[^,，]*呢|\A\W*(?!还|都|才|正)\w{1,6}(?<![多着])呢\W*\Z|"
    r"([\u4e00-\u9fff])[^,，。]{0,10}还是\1|是不是|有没有|能不能|可不可以|要不要|行不行|该不该|会不会|([\u4e00-\u9fff])不\2|(?:是|用|选|买|要|去|加|先|做|放|换|吃|该|算|走|开|打|看|学|喝|穿|住|坐|带|给|得|属于)[^,，。]{0,20}(?<![我你他她们])还是|还是[^,，。]{1,20}[啊呢呀好](?=\W*\Z)|求[问助教推解]|不知道(?:该)?怎么(?!了)|请[问教]|(?:\A|[\s,，])(?:想|来|弱弱)?问(?:一下|个|下)"
)
JA_ASKS = r"(?:です|ます|ません|でした|ました)か|[かの](?=[?？])|かな[。?？]?\Z|教えて|(?:どう|なぜ|なんで|どこ|いつ|どれ|どっち|誰か)[^。]*"
WH = (
    r"what(?:'?s|re)?|who(?:'?s)?|whose|where(?:'?s)?|when|why|how(?:'?s)?|"
    r"which(?! reminds)(?! (?:is|was|means|makes) (?:what|why|how|when|a|the|exactly|great|fine))"
)
AUX = r"is|are|was|were|am|do|does|did|can|could|should|would|will|has|have|had|isn't|aren't|don't|doesn't|didn't|can't"
ABOUT = rf"(?:{AUX})\s+(?:i|you|u|we|they|he|she|it|its|there|this|that|these|those|the|a|an|my|your|our|any|anyone|someone)\b"
OPENING = r"(?:does|is|are|did|was|were|can|should|could) (?!confirm|fine|good|what|be|do|relate|i say|and|or|not|have)\w+(?: \S+){3}|(?:does|would) (?!be|love|like|you|have)\w+ \w+|any \w+ (?:for|with|on|in|about)|do (?!it|that|this|not|your?|the|an?|what|so|u|we|i|me|us|check|try|tell)\w+ \w+"
EN_ASKS = (
    rf"\b(?:{WH})\s+(?:{AUX}|to|about|if|much|many|long|often|far|come|exactly|else)\b|\b(?:what|how|where|who)'?s\b|"
    rf"(?:\A|[,.;:!\n]\s*)(?:(?:and|but|so|or|ok|hm+|hey|also|then|now|wait|question)[\s,]+)*(?:(?:(?:at|in|on|for|from|to|with|by) )?(?:{WH})\b|{ABOUT}|{OPENING})|"
    r"(?<!so )(?<!nor )(?<!than )\b(?:do|does|should|can|could|must|am) i\b|"
    r"\b(?:any(?:one|body)|somebody|someone) (?:know|here know|tried|have|got|else)|\bany (?:idea|tips?|recommendation|advice)|"
    r"\b(?:silly|dumb|quick|genuine|stupid|serious|random|real|noob|newbie) question\b|"
    rf"\b(?:or|if|whether) (?:{ABOUT})|\A\W*help\b|\b(?:don't|dont|do not) know (?:if|whether|how|why|what)\b|\bi'?m stuck\b"
)
WANTS_EN = (
    r"explain|tell|give|show|write|convert|translate|remind|list|compare|recommend|suggest|calculate|compute|help|find|look|"
    r"check|make|say|describe|summari[sz]e|define|draw|name|pick|roll|search|google|define|rate|try|read|answer|spell|count|"
    r"continue|elaborate|repeat|rephrase|shorten|simplify|come|speak|please|pls|plz"
)
WANTS_ZH = (
    r"来[个点一段首份条说讲答评]|出来|翻[成译]|帮[我我们忙]?|给[我们大个一讲出]|讲[讲个一解]|说[说一个句]|查[查一下个]|看[看一下]|翻译|推荐|改[成一写短]|用\w{1,8}(?:写|说|讲|翻|解释)|加上|去掉|缩|简[单短化]|短[一点]|解释|写[个一段首份]?|算[算一下]|"
    r"再[来讲说写给举简短详细]|举[个例]|详细|展开|总结|介绍|教[我教]|提醒|评[评价]|选[个一]|列[个出一]|换[个一成]|继续|麻烦|请|展示|唱|念|猜"
)
WANTS_JA = r"[てで](?:ください|くれ|ほしい|もらえ|ちょうだい|みて)|お願い"
PARTICLES = "啊呀吧嘛哦喔呢啦诶欸"
GREETINGS = r"(?:good )?(?:morning|evening|afternoon|night)|早上好|晚上好|下午好|早安|晚安|hey|hi|hello|yo|ok|okay|so|and|but|well|also|oh|um+|uh+|hm+|pls|please|dear|喂|嗨|诶|欸|哎|那|那个|对了|话说|请问|问下|问一下|想问|请教|所以|ねえ|あの"


BEFORE_WISHES = r"can you|could you|now|then|你|您|再|先|快"
CALLS = (
    # how {names} are called; `rest` is what is said to them
    rf"\A[\s\W]*(?:(?:{GREETINGS})[\s,，]*){{0,3}}(?:@?(?:{{names}})[\s,，]*)+(?P<rest>.*)\Z",
    rf"\A.{{0,300}}?(?:[\s,，。.!！?？、]|[{PARTICLES}])@?(?:{{names}})[\s,，]{{0,2}}(?P<rest>(?:[你您请]|帮[我忙]|给我|替我|教我|告诉|麻烦|能不能|可不可以|(?:can|could|would|will|do|are|did) you\b).*)\Z",
    r"\A\W*(?P<rest>(?:can|could|would|will) (?:you|u|ya)\b.*)\b@?(?:{names})\b.*\Z",
    r"\A(?P<rest>.*\b(?:please|pls|(?:one|question|task|something) for) @?(?:{names})\b.*)\Z",
    rf"\A(?P<rest>.*?(?:[\s,，。.!！?？~～、好安早]|[{PARTICLES}]))@?(?:{{names}})[\s\W{PARTICLES}]*\Z",
    rf"\A(?P<rest>.*?(?:[,，。.!！?？、]\s*|[{PARTICLES}]))@?(?:{{names}})(?=[,，。.!！?？、\s]).*\Z",
    r"\A.{0,40}\s(?:{names})[,，]\s*(?P<rest>.*)\Z",
)

# --- whom a line is for

BOT_LIKE = r"bot\b|bot\Z|\bbot|机器人|助手|小秘书|管家|小蜜|播报|助理|assistant|notifier|webhook|アシスタント|ボット"
OWN_TAG = r"\A\s*(?:\W{0,3}\s*)?[\[【](?P<tag>[^\]】\n]{1,40})[\]】]"
COMMAND = r"\A\s*[/!！.][^\W\d_]{2,}"
MEDIA = r"\A\s*(?:[\[【(（][^\]】)）\n]{1,24}[\]】)）]\s*)+\Z"
FORWARD = (
    r"\A\s*(?:[\[【]转|转[：:]|[\[【]?(?:转发|转自|轉發|链接|連結|分享|link|fwd?|forwarded|shared|紧急扩散|リンク|転送)|from the other (?:chat|group)|"
    r"https?://\S+\s*\Z)"
)
QUOTED = r"「[^」]{4,}」|『[^』]{4,}』|“[^”]{4,}”|\"[^\"\n]{4,}\"|«[^»]{4,}»|^[ \t]*>[^\n]*$"
PASTED = r"\A\s*[^\s:：,，。?？!！]{1,24}(?: [^\s:：]{1,16})?\s?(?:wrote|said|说|写道|原话)?\s?[:：]\s*(?=@|[「“\"『])"
REACTION = (
    r"\A\W*(?:thank|thx|ty\b|ta\b|cheers|ok\b|okay|ah+\b|oh+\b|got it|that one|makes sense|phew|lol|lmao|ha(?:ha)+|nice|great|"
    r"perfect|谢|多谢|感谢|懂了|明白|好的|好嘞|收到|原来|学到|对就|哈哈|笑死|ありがと|なるほど|了解)"
)
WISH = (
    r"\A\W*(?:hi|hello|hey|good (?:morning|night|evening)|morning|happy|merry|welcome|how are you|早|晚安|你好|新年|生日|节日|中秋|春节|"
    r"圣诞|元旦|辛苦|在[吗不]|周末愉快|\\W*[:;][)D]|おはよう|こんにちは|おやすみ)|快乐|\b(?:happy|merry) \w+"
)
ABOUT_BOT = r"问问?(?:那个|这个)?机器人|\bask(?:ed|s|ing)? (?:the|that|this) bot\b|\bthe bot(?:'s)?\b"
THANKS = r"\b(?:thanks?|thank you|thx|ty|ta|cheers|appreciated?|helpful|saved me|saves me|lifesaver|legend|brilliant|gets? it now|works? now|worked)\b|谢|感谢|懂了|明白了|学到|收藏|截图|搞定|解决了|放心了|[解讲说]释?得|(?<!不)清楚了?\Z|太强|牛|果然|ありがと|助か"
CONTRAST = r"\b(?:but|still|tho|though)\b|但|不过|可是|可我|还是"
"""After thanks: there is more to come."""
DOUBT = (
    # what was said doesn't fit, doesn't help, or isn't all
    r"\b(?:but|tho|though|however|still|only|nothing|same (?:error|thing|problem|result|message)|errors?|dead|broken|wrong|contradicts?|"
    r"i (?:meant|asked|said)|confus\w+|lost me|really\?)\b|\b(?:(?:do|does|did|is|are|was|wo|could|would|has|have)n'?t|can'?t|cannot|not)\b|"
    r"不[对行懂明一太能会够同](?!过瘾)|不是吧|\A不是|我是[问说]|[看打找用进]不[到开懂了去]|没(?:用|懂|明白|看|找|反应|有[^,，。]*(?:选项|按钮|这))|真的假的|奇怪|我记得|"
    r"可是|可我|但|不过|报错|同样|还是|怎么还|だけど|でも|違う|本当"
)
ELLIPTIC = (
    r"\b(?:instead|same but|shorter|longer|simpler)\b|\A\W*in (?:\w+|one line|a table)\b|\A\W*(?:and|but|what about|how about|what if|if|same)\b|"
    r"\A\W*(?:如果|要是|假如|万一|换成|不过|可是|但|可(?=[我是这那])|顺便|じゃあ|それ|では)"
)
KNOWLEDGE = (
    # whoever asks so wants a fact, a way or a reason
    r"\bhow (?:\w+ )?(?:do|does|can|could|should|would|to|much|many|long|often|hot|far|come|is|are|was|did)\b|\bwhy\b|\bdifference\b|"
    r"\bwhat(?:'?s| is| are| was| were)? (?:the|a|an|does|do|causes?|am i|would|exactly|kind|type|sort)\b|\bwhich\b|\bwhat \w+ (?:for|do|does|is|are|should|to|would)\b|\A(?:do|does) (?!you|we|they|u|i|it|he|she|this|that|the|my|your|our|any|some|every)\w+|, does \w+|\A(?:can|could) (?!you|we|they|i|u|it|he|she|any|some|the|that|this)\w+|\bdo \w+ (?:need|have to|work|cost|count|last|require|help|matter|go|taste|keep)\b|"
    r"\bis (?:it|that|this|there) (?:too|safe|ok|okay|worth|possible|normal|legal|bad|true|still|any|a)\b|"
    r"\b(?:can|could|should|must|do|did|am|will|would) i\b|\bdoes (?:it|that|this|the|my|a|an)\b|\b(?:can|do|is|are|will|should) (?:a|an|people)\b|\bif (?:a|the|i|my)\b|"
    r"\bmeans?\b|\A\W*help\b|\b(?:don't|dont|do not) know (?:whether|how|why)\b|\bany(?:one|body)? (?:here )?(?:knows?|idea|tips?|recommend\w*|advice)\b|\brecommend|\bexplain|"
    r"\b(?:silly|dumb|quick|genuine|stupid|serious|random|real|noob|newbie) question\b|"
    r"怎[么样](?!不|还|又|了|这|那|都|也|回)|咋(?:办|弄|整|搞|用|样)|如何|为什么|为啥|区别|差别|[是有](?:什么|啥)|意思|原因|原理|"
    r"选哪|哪[些种款类]|哪[个家][^,，。?？]{0,8}[好高快值强多]|到底|一般|[什啥]么?(?:情况|毛病|问题|材料|办法)|"
    r"(?:要|能|可以|需要|该|用|选|看|找|办|算|加|放|买|做|在|从)[^,，。?？]{0,10}(?:什么|啥|哪|几|多[久少大长高])|[去在]哪[^,，。?？]{0,3}[找买弄办下]|推荐|请[问教]|(?:\A|[\s,，])(?:想|来|弱弱)?问(?:一下|个|下)|求[问助教推解]|能不能|可不可以|要不要|该不该|会不会|有没有(?:办法|什么|推荐|必要)|"
    r"(?:要|能|可以|需要|会|算|得|有|是|用|行)[^,，。?？]{0,30}(?:吗|不\b|没\b|么\b)|多[久少大长高厚深远重]|还是|差在|算不算|是否|靠谱吗|正常吗|安全吗|知道[^,，。]*(?:吗|怎|哪|啥|什)|怎证|"
    r"ですか|ますか|方法|違い|教えて|なぜ|おすすめ"
)
PEOPLE = (
    # about those present: their plans, things, doings
    r"(?<!one )(?<!body )(?<!people )(?<!those )\bwho(?:'?s| is| are| wants?| has| took| ate| else| was)?\b(?! (?:invented|wrote|discovered|founded|painted|won))|\bwhose\b|"
    r"\bany(?:one|body)\b(?! who\b)(?! (?:here )?(?:knows?|understands?|ever|familiar|tried|able|remembers?|explains?|tell me|recommends?|figured|managed|used|had|dealt|have (?:an?y? )?(?:idea|clue|tips?|experience)|got (?:an?y? )?(?:idea|clue|tips?|experience)))|"
    r"\b(?:can|could|would|will|did|has|is|does) some(?:one|body)\b(?! (?:explain|tell|help me|point|recommend|suggest))|\A\W*some(?:one|body)\b|"
    r"\b(?:you|u|y'?)\s?(?:all|guys|lot|two|both)\b|(?<!why )(?<!how )\b(?:are|shall|should|can|could|do|did|will|have|were) we\b|"
    r"\bdid i (?:miss|leave)\b|\bcoming\b|\blook like\b|\bof (?:you|us)\b|"
    r"\b(?:know|idea|remember|tell me) (?:if|whether|where|when|what|why|how) (?:(?-i:[A-Z])\w+|(?!(?:it|there|this|that|the|a|an|my|to|you|i|we)\b)\w+ (?:is|was|left|has|had|did|went|put|got|can|will)\b)|"
    r"\bwhat did\b|\bwhat happened\b|\b(?:my turn|your turn)\b|\bsame (?:time|place|seats)\b|"
    r"\b(?:can|could|would) (?:people|folks|every(?:one|body))\b|你们|咱|(?<!请问)(?<!请教)(?<!问问)(?<!打扰)(?<!麻烦)大家|大伙|各位(?=[在去都谁])|(?<!归)(?<!由)谁(?!知道|懂|会|能解|了解|用过|先|负责|承担)|有没有人(?!.{0,4}(?:知道|懂|会|用过|了解|遇到|试过|办法|什么|推荐|必要))|"
    r"有人(?!说|觉得|认为|知道|懂|会|用过|了解|遇到|试过|能解)|要不要一起|一起(?=[去来走玩拼团约])|几点(?=[开出去来到见走了啊呀呢吗方集\s?？]|\Z)|到哪(?=[了啦儿呢吗?？]|\Z)|在哪[了呢啊]|给我(?!讲|解|说|推)|借我|陪我|叫我|拼车|[来去]不[来去]|凭什么|至于吗|"
    r"(?:老|小|阿)[\u4e00-\u9fff]{1,2}(?=今天|昨[天晚]|刚才|最近|现在|人呢|去哪|回来|在不在)|みんな|誰が|一緒に"
)
WE = r"\byour\b|\b(?:we(?! (?:say|call|use|write))|us|our)\b|我们|私たち"
YOU = (
    r"\b(?:do|did|are|were|have|had|will|would|can|could|should|if|when|what|where|how|why) (?:you|u)\b|\byou(?:'re|'ve)\b|\b(?:yours|ur)\b|\A\W*(?:\w+ )?(?:you|u)\b|"
    r"\byou (?:guys|all|ok|okay|alright|sure|there|coming|going|want|think)\b|[你您]|あなた|君"
)
ANYONES_YOU = (
    r"\b(?:how|what|when|where|which|why)(?: \w+){0,2} (?:do|would|should|can|could) (?:you|u)\b(?! (?:all|guys|lot|think|want|mean|like|"
    r"feel|know|prefer|two|both|still|even|ask|say|get|got|have|do|doing)\b)|\b(?:if|when|unless|once|before|after|until|than) (?:you|u|your)\b|"
    r"\b(?:how|where|what|when) you (?!all|guys|two|both|feel|think)\w+|\bwhere (?:would|do|should) you (?:even )?(?:start|begin|look|go)|"
    r"\bare you (?:allowed|supposed|meant) to|\bdo you (?:need|have) to\b|(?:\A|[,.;!?]\s*)can you\b(?!.*\b(?:me|my|us|i)\b)|"
    r"\bdo you (?!all|guys|have|want|live|know|think|like|mean|still|remember|play|work|feel|get|go|even|ever|need|ask|mind)\w+|你(?=说[^过])"
)
WHEN = r"\b(?:tonight|tomorrow|today|yesterday|weekend|(?:mon|tues|wednes|thurs|fri|satur|sun)day|next week|later|at \d)\b|今[天晚早]|明[天早晚]|昨[天晚]|刚才|后天|周末|晚上|中午|早上|下午|这周|今夜|明日"
STATE = r"\b(?:still|yet|anymore|already|again)\b|了没|了吗|还[^,，。]{1,8}吗|怎么(?:回事|搞的|又)"
"""How things stand now and here: what members know."""
HEAT = r"[?？][?？]|[!！][?？]|[?？][!！]|\bshut up\b|有病|有毛病|闭嘴|\bthe hell\b|\bwtf\b"
SELF_ANSWERED = r"[?？]+\s*(?:oh|yes|no|nope|yeah|yep|nvm|never mind|哦|噢|算了|没事了?|对)\b[^?？]*\Z"
SIGH = r"(?:\bhow (?:am|was|is|are|were) (?:i|we|one) supposed to know\b|\bwhy\b.*\b(?:always|ever|every|never|must|even)\b|(?:为什么|为啥|怎么).*(?:永远|总是|老是|每次都|偏偏|总))[^?？]*\Z"
MADE_UP = (
    r"\*\*[^*]+\*\*|\A[\u2600-\u27bf\u2b00-\u2bff\U0001f300-\U0001faff]\ufe0f?\s*(?:[\[【]|(?-i:[A-Z])[\w ]{2,20}:)"
)
"""Emphasis, or a sign and a bracket in front: what programs write."""
PRAISE = (
    r"\b(?:beauty|best|great|good|nice|love|loved|genius|smart|clever|awesome|amazing|brilliant|legend|star|hero|king|queen|beast|goat|w|gg|proud|"
    r"thanks?|thank|thx|ty|ta|cheers|lol|lmao|haha+|dead|crying|sorry)\b|谢|棒|厉害|牛|好(?:专业|可爱|聪明|强|懂|会)|可爱|聪明|666|绝了|太.*了|哈哈|笑|爱你|优秀|满分|神"
)
THIRD_PERSON_EN = r"\A(?:'s\b|(?:is|was|has|had|said|says|told|knew|knows|thinks|can't|will|just|really|and|or|\d+)\b(?! (?:it|there|this|that|these|those|my|the|an?|i|you|we)\b)(?![^?]*\?))"
THIRD_PERSON_ZH = r"\A(?:[说讲]的|[好真太很挺也就都又可][^?？]*\Z|和|跟|与|的|能[^?？]*就好|(?:刚才|刚刚|昨[天晚]|之前|上次|平时|肯定|都|一直|从来|居然|竟然)[^?？]*\Z|说(?!说|一|个|句|来|看)[^?？]*[。！]?\Z|はすごい|が)"
"""After a name: the sentence is about the one of that name."""
AT_SOMEONE = r"(?:\A|\s)@(?P<who>[^\s@,，:：]{1,40})"

# --- what an answer takes, and what is worth keeping of a talk

KINDS = (
    # what a tool's name and description speak of, and what a message says that needs it
    (r"weather|forecast|天气|气象|天気", r"\b(?:weather|forecast|rain|snow|temperature)\b|天气|气温|下雨|下雪|天気|気温"),
    (
        r"search|look ?up|google|bing|搜索|检索|検索",
        r"\b(?:search|look up|google|find out|latest|newest|news|price|release[ds]?|score of)\b|搜|查|检索|最新|新闻|价格|多少钱|股价|汇率|調べ|検索",
    ),
    (r"brows|fetch|url|web ?page|网页|ページ", r"https?://|\b(?:open|visit) (?:the|this|that) (?:page|site|link)\b|打开.{0,6}(?:网页|链接|网站)"),
    (r"\b(?:time|clock|timezone)\b|时间|時刻", r"\bwhat time\b|\btime (?:in|is it)\b|几点|现在.{0,3}时间|何時"),
    (r"calculat|math|arithmetic|计算|計算", r"\d\s*[-+*/×÷^]\s*\d|\b(?:calculate|compute|convert)\b|计算|算一?下|換算|换算"),
    (r"translat|翻译|翻訳", r"\btranslate\b|翻译|翻成|译成|翻訳"),
    (r"image|draw|picture|paint|画|图", r"\b(?:draw|paint|picture of|image of)\b|画[一张个只幅]|生成.{0,4}图|描いて"),
    (r"remind|alarm|timer|calendar|提醒|日程|リマインド", r"\b(?:remind|alarm|timer|schedule)\b|提醒|定个?闹钟|日程"),
)  # fmt: skip
HARD = (
    r"\b(?:prove|proof|derive|step by step|trade-?offs?|pros and cons|analy[sz]e|reason (?:about|through)|work out why|"
    r"think (?:hard|carefully|it through))\b|证明|推导|推理|分析一?下|权衡|利弊|一步一?步|逻辑题|証明|導出|じっくり考え"
)
TELLING = r"\d|\b(?:will|must|decided?|agreed?|moved?|meet(?:ing)?|because|need|plan|bought|broke|lost|won|deadline|birthday)\b|决定|同意|因为|约|计划|买|坏|丢|生日|考试|搬|改到|截止"
EMBEDDED = r"不知道[^,，。?？\s]*?(?=就|都|也|还)|不晓得[^,，。?？\s]*?(?=就|都)|问了[^,，。?？\s]*|不管[^,，。?？\s]*|无论[^,，。?？\s]*"
"""Questions that are told, not asked."""
PLACE = r"\b(?:in|at|for|near) (?P<p>(?-i:[A-Z])[\w'-]+(?: (?-i:[A-Z])[\w'-]+)*)|(?P<z>[\u4e00-\u9fff]{2,6}?)(?:市)?(?:今天|明天|后天|现在|周末|的)*(?:天气|气温|几点)"
