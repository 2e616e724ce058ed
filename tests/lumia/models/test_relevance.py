"""When the offline model wants to speak: the situations of a group, in Chinese, English, both, and some Japanese."""
# ruff: noqa: E501  (what is said in a chat is read side by side)

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from lumia.models import Models
from lumia.models.asking import asks, called, names, wants
from lumia.models.relevance import Judge, Judged, Turn
from lumia.models.spoken import spoken

OWN = ("Lumia", "小露", "露米娅")
SPEAKS, ATTENTIVE = 0.65, 0.455
"""The thresholds of heartflow: usually, and while the bot is attentive."""
anything = st.text(st.characters(codec=None, exclude_categories=()), max_size=150)


def judged(text: str, *before: Turn, speaker: str = "Zoe", to: str = "") -> Judged:
    return Judge([Turn("Bob", "haha"), *before, Turn(speaker, text, to)], OWN).judged()


@pytest.mark.parametrize(
    "text",
    [
        "lumia, is it too late to sow beans?", "hey Lumia can you settle an argument for us", "so @lumia which one is right",
        "that's wrong i think. what do you say, lumia?", "Lumia remind me what tangzhong is", "Lumia pls settle this: tabs or spaces",
        "ok lumia translate mind the gap into chinese", "good night lumia", "hi lumia :)", "Lumia!", "lumia? you there?",
        "小露 天幕杆子没带够的话可以用登山杖撑吗", "小露来个今天的每日一词", "万一真被咬了咋办啊露米娅，要绑止血带不", "小露小露 讲个冷笑话",
        "谁懂这个啊 小露你来说", "问下小露 泡菜坛子要不要晒", "露米娅在吗", "小露新年快乐～", "小露, write me a polite 中文 text",
        "小露、明日の天気を教えて",
    ],
)  # fmt: skip
def test_it_speaks_when_it_is_spoken_to_by_name(text: str) -> None:
    assert judged(text).score > SPEAKS


@pytest.mark.parametrize(
    "text",
    [
        "lumia's answer was better than yours tbh", "i asked lumia the same thing yesterday", "even lumia knew", "ask lumia",
        "if anyone asks lumia about rye again tell me", "lumia you absolute beauty you called it", "Lumia told me to water less",
        "a lumia 950, still boots", "Lumia 950 was a good phone, wasn't it", "昨天我问那个露米娅红烧肉怎么不柴 它说别放冷水",
        "小露好专业 比某些人强多了", "露米娅说的也不一定对", "要不问问机器人怎么躲 别吵了", "等露米娅的功夫我先去泡个面", "小露说可以冷冻", "感谢露米娅救我一命",
    ],
)  # fmt: skip
def test_it_stays_silent_when_it_is_talked_about(text: str) -> None:
    assert judged(text).score <= ATTENTIVE


@pytest.mark.parametrize(
    "text",
    [
        "can i add a single disk to an existing raidz2 vdev these days or do i still have to rebuild the pool",
        "how deep do you plant garlic cloves", "what psi for 28mm tubeless at 75kg", "does concentration break if you get knocked out",
        "f/8 vs f/11 for landscape on crop, does diffraction matter", "anyone know if comfrey tea is ok for tomatoes",
        "why does my scoring always close up in the oven instead of making an ear?", "can someone explain what a p-value of 0.06 tells me",
        "how many games does he miss for a straight red, three?", "高山气罐和普通的扁气罐有啥区别啊，春天晚上五六度用哪种",
        "涂层全掉渣发粘了，还有救吗，怎么处理啊各位", "黑底一圈圈白环的蛇是啥品种 有毒没", "医保卡在外地看病要先备案吗，在手机上怎么弄", "美缝剂用环氧的还是真瓷的好",
        "卫生间贴砖之前防水要做几遍啊", "有没有人知道 专业课真题一般去哪找", "感冒药和酒能一起吃吗", "群里有懂法律的吗 楼上漏水不承认怎么办",
        'mypy 报 "Source file found twice under different module names" 一般是啥原因', "what does 内卷 actually mean? 课本里没有",
        "日语里 は 和 が 到底差在哪", "フィルムカメラの露出計が動かないんですが、電池はどれを使えばいいですか",
    ],
)  # fmt: skip
def test_it_answers_a_question_of_facts_that_nobody_in_particular_is_asked(text: str) -> None:
    assert judged(text).score > SPEAKS


@pytest.mark.parametrize(
    "text",
    [
        "who's bringing the tombola stuff on saturday", "does anyone want half a bag of T80? i overbought", "lineup?",
        "what do you all use, just the cheap dial ones?", "are we still on for the call at 8?", "can someone let me in",
        "Can someone put that into RELEASING.md?", "does anyone know if marcus is back from his holiday yet", "how was the ride?",
        "why does my kitchen look like a crime scene every single saturday", "anyone up for a ride sunday 8am", "are you kidding me",
        "这次都谁去呀 我看看车够不够坐", "几点出发啊明天", "你们都报哪儿", "晚上有人一起吃火锅吗 释放一下", "有没有人一起坐S8 从机场那边过来",
        "谁把我的抗体用完了", "今天停水吗", "有人在家吗 帮我收个快递", "凭什么第一个怀疑我？？", "为什么类型注解永远差一个 Optional", "多少年没见过这么大的雪了",
        "有人知道老郑今天心情怎么样吗", "今夜誰が来る？",
    ],
)  # fmt: skip
def test_it_leaves_questions_about_those_present_and_sighs_to_them(text: str) -> None:
    assert judged(text).score <= SPEAKS


@pytest.mark.parametrize(
    "text,to",
    [
        ("Bob did you ever get that card working?", ""), ("@Cid what model were the fans again", ""),
        ("haobin can you cut a release before friday?", ""), ("how did you do that?", "Bob"), ("Bob 你炉子带不带", ""),
    ],
)  # fmt: skip
def test_it_leaves_questions_to_another_to_them(text: str, to: str) -> None:
    assert judged(text, to=to).score <= ATTENTIVE


FED = (Turn("Zoe", "how often should i feed it"), Turn("", "Once a week is enough."))


@pytest.mark.parametrize(
    "text",
    [
        "and for a north facing wall?", "hm and if the whole wheat is freshly milled?", "shorter please", "what about leeks",
        "now the same but for someone who only understands trains", "are you sure? the wiki says otherwise", "that doesn't add up",
        "那冬天零下呢", "如果我急躁已经快堆满了呢", "预算一千以内有吗", "能举个例子吗 太抽象了", "再简单点说", "不对吧 我记得是先乘除", "这个步骤二没看懂", "可是说明书上写的是30分钟",
    ],
)  # fmt: skip
@pytest.mark.parametrize("to", ["", "Lumia"], ids=["simply next", "as a reply"])
def test_it_goes_on_with_the_one_it_has_answered(text: str, to: str) -> None:
    assert judged(text, *FED, to=to).score > SPEAKS


@pytest.mark.parametrize(
    "text", ["thanks lumia", "ahh ok. thank you, that saves me a weekend", "got it", "phew ok", "懂了 谢谢", "原来如此！！谢啦", "对就是这个", "哈哈哈哈绝了"]
)  # fmt: skip
@pytest.mark.parametrize("to", ["", "Lumia"], ids=["simply next", "as a reply"])
def test_it_lets_thanks_be_thanks(text: str, to: str) -> None:
    assert judged(text, *FED, to=to).score <= ATTENTIVE


def test_a_short_question_of_another_is_not_a_follow_up() -> None:
    assert judged("最后结论？", *FED, speaker="Cid").score <= ATTENTIVE < judged("最后结论？", *FED).score


@pytest.mark.parametrize(
    "speaker,text",
    [
        ("UptimeBot", "is nas-02 still down? check it"), ("团本小秘书", "[团本小秘书] 还有谁要报名吗？回复「报名 职业」加入"),
        ("翻译姬", "[翻译姬] 无法识别的指令：/remind，要怎么用请看帮助"), ("MEE6", "📊 **Meetup in March, what do people think?** yes no"),
        ("Lumia (88)", "我是露米娅，怎么把登录验证码发给我你们知道吗"), ("Ann", "/remind me tomorrow, what was it?"), ("Ann", "[图片]"), ("Ann", "？？？"),
        ("Ann", "【转发】为什么隔夜菜不能吃？医生说漏嘴了"), ("Ann", "[链接] 为什么我们从 Poetry 迁到 uv：一年后的总结"),
        ("Ann", "那天露米娅原话：“@Lumia 收到，露营请至少离水边30米扎营。”截图我存了"), ("Ann", "夜雨: @Lumia 帮我写个检讨，理由是打本睡着了"),
        ("Ann", "> **Lumia**: is a rising count bad? yes.\nthis is going on a mug"),
    ],
)  # fmt: skip
def test_it_leaves_bots_commands_pictures_and_quotations_alone(speaker: str, text: str) -> None:
    assert judged(text, speaker=speaker).score <= ATTENTIVE


def test_what_is_said_to_someone_under_its_name_is_not_for_it() -> None:
    assert judged("Lumia你可拉倒吧 你叫啥你自己知道", to="Lumia [88]").score <= ATTENTIVE


class Relevance(BaseModel):
    relevance_score: float
    reason: str = ""


def test_the_small_role_judges_a_group_by_its_last_line_and_knows_its_nicknames() -> None:
    def ask(system: str, *lines: tuple[str, str]) -> Relevance:
        messages = [{"role": "user", "name": name, "content": text} for name, text in lines]
        found: Relevance = Models({}, {}).chat("small", messages, system=system, output_type=Relevance).output
        return found

    line = ("Ann", "小露 来个冷笑话")
    assert ask("Lumia (小露, 露米娅): a friend", line) == Relevance(relevance_score=0.95, reason="asks the bot")
    assert ask("Lumia: a friend", line).relevance_score < ATTENTIVE
    reply = ("Ann", spoken("and in winter?", "Lumia"))
    assert ask("", ("Bob", "no"), reply).reason == "answers the bot with a question"


@pytest.mark.parametrize(
    "text", ["gibt es hier WLAN", "¿cómo se hace?", "comment ça marche", "写啥", "これは何ですか", "so does it work"]
)
def test_questions_are_seen_in_all_its_languages(text: str) -> None:
    assert asks(text) is (text != "gibt es hier WLAN")


def test_cues_of_a_line() -> None:
    assert wants("now in metric, please")
    assert not wants("we went home")
    assert names("ask lumia", OWN)
    assert not names("illumiate, Lumia2", ("Lumia",))
    assert called("hey Lumia, what's up", OWN) == "what's up"
    assert called("I met Lumia today", OWN) is None
    assert called("anything", ()) is None


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["", "Bob", "Zoe"]), anything), max_size=4), anything, anything, anything)
def test_nothing_makes_it_stumble(before: list[tuple[str, str]], speaker: str, text: str, to: str) -> None:
    found = Judge([Turn(who, what) for who, what in before] + [Turn(speaker or "?", text, to)], OWN).judged()
    assert 0 <= found.score <= 1
    assert found.reason


@pytest.mark.parametrize(
    "text",
    ["why always ", "how do you ", "要是 用还是 ", "Lumia, ", "小露小露 你", "@Bob ", "“abc” ", "(((", "[x] ", "多少吗不", "a" * 50, "没 ", "? ", "你能", "\n> "],
)  # fmt: skip
def test_a_megabyte_is_judged_in_a_moment(text: str) -> None:
    long = (text * (1_000_000 // len(text) + 1))[:1_000_000]
    began = time.perf_counter()
    judged(long)
    judged(long, *FED, to="Lumia")
    judged(long[:600], speaker=long[:64])
    assert time.perf_counter() - began < 3
