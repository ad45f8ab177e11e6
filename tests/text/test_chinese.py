"""Chinese numbers, money, dates, times, numbers to call and symbols."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ChatTTS.text.chinese import read_chinese
from ChatTTS.text.number_words import chinese_number


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("0", "零"),
        ("10", "十"),
        ("11", "十一"),
        ("105", "一百零五"),
        ("110", "一百一十"),
        ("1001", "一千零一"),
        ("10001", "一万零一"),
        ("101000", "十万一千"),
        ("100001000", "一亿零一千"),
        ("1000010000", "十亿零一万"),
        ("123456789", "一亿二千三百四十五万六千七百八十九"),
        ("1,234.50", "一千二百三十四点五零"),
        ("007", "零零七"),
    ],
)
def test_plain_numbers(written: str, words: str) -> None:
    assert chinese_number(written) == words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("今天是2024年5月3日", "今天是二零二四年五月三日"),
        ("拨打119、120或315热线", "拨打幺幺九、幺二零或三幺五热线"),
        ("由21 :30改", "由二十一点三十分改"),
        ("苯基-2-丙酮，当-a/2≥3", "苯基杠二杠丙酮，当负二分之a大于等于三"),
        ("2024-05-03，下午3:30", "二零二四年五月三日，下午三点三十分"),
        ("价格是$5.20，¥100", "价格是五点二零美元，一百元"),
        ("赚了$1.5亿", "赚了一点五亿美元"),
        ("电话是13812345678", "电话是幺三八幺二三四五六七八"),
        ("打+86 138 1234 5678", "打加八六，幺三八，幺二三四，五六七八"),
        ("拨010-12345678", "拨零幺零，幺二三四五六七八"),
        ("50%的人，1/2的人", "百分之五十的人，二分之一的人"),
        ("20%-30%，3-5天", "百分之二十到百分之三十，三到五天"),
        ("1990-2000年", "一九九零到二零零零年"),
        ("温度是-5°C", "温度是负五摄氏度"),
        ("我有2个，1,234.5", "我有两个，一千二百三十四点五"),
        ("3+5=8，5-3=2", "三加五等于八，五减三等于二"),
        ("版本v2.0.1", "版本二点零点一"),
        ("用GPT-4和4x4", "用GPT 四和四乘四"),
        ("3pm开会，第1st", "下午三点开会，第第一"),
        ("A&B，#5，user@mail.com", "A和B，五号，user艾特mail点com"),
        ("看https://a.cn/x?y=1。", "看a点cn斜杠x。"),
        ('他说"有3个"', "他说有三个"),
    ],
)
def test_chinese_is_read_out(text: str, words: str) -> None:
    assert read_chinese(text) == words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("发表5-6篇", "发表五到六篇"),  # no table
        ("花了666元，第888号，111", "花了六百六十六元，第八百八十八号，一百一十一"),
        ("叫120个人，打110元", "叫一百二十个人，打一百一十元"),
        ("所以8:30开始，可以9:15来", "所以八点三十分开始，可以九点十五分来"),
        ("19:35开赛，2:1获胜", "十九点三十五分开赛，二比一获胜"),
        ("13:00后办理", "十三点后办理"),  # no generation
        ("1990-2000元", "一千九百九十到两千元"),
        ("今天-5度，歼-20", "今天负五度，歼二十"),
        ("占8/10，买了200家医院", "占十分之八，买了两百家医院"),
        ("A100和A380", "A 一百和A三八零"),
        ("iPhone 15 256GB，iPhone 5s", "iPhone 十五 两百五十六GB，iPhone 五s"),  # no 15 256
        ("在3-300元，买5-100", "在三到三百元，买五到一百"),  # no room
        ("y=2x，占3/16", "y等于二x，占十六分之三"),  # no multiple, no day
        ("19:35、18:20开始", "十九点三十五分、十八点二十分开始"),  # no scores
    ],
)
def test_a_class_claims_no_more_than_its_own(text: str, words: str) -> None:
    assert read_chinese(text) == words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("18/33层，被告李×，张××", "十八层，共三十三层，被告李某，张某某"),
        ("6204-2RS，D4617/4620次，国VI", "六二零四杠二RS，D四六幺七、四六二零次，国六"),
        ("80,000-120,000元", "八万到十二万元"),
        ("局分:22-25、25-19", "局分:二十二比二十五、二十五比十九"),
        # A number is a value, or digits of a name.
        ("茅台(600519)涨", "茅台(六零零五幺九)涨"),
        ("人口1234567，共300725", "人口一百二十三万四千五百六十七，共三十万零七百二十五"),
        ("号码×××3736", "号码三七三六"),
        ("，12 000 r/min", "，一万二千转每分"),
        ("按60335-1和60335-2-81", "按六零三三五杠一和六零三三五，二，八幺"),
        ("打0800-365588，在3-201", "打零八零零，三六五五八八，在三杠二零幺"),
        ("他捐了123456，密码改成了123456", "他捐了十二万三千四百五十六，密码改成了幺二三四五六"),
        ("GTX 760满载，99新，30新增", "GTX 七六零满载，九九新，三十新增"),
        # Two numbers.
        ("湖人(16-42)三连胜", "湖人(十六比四十二)三连胜"),
        ("于6/28、10/8和24/7", "于六月二十八日、十月八日和二十四，七"),
        ("433MHz~915MHz", "四百三十三兆赫到九百一十五兆赫"),
        ("内存8GB/12GB", "内存八GB，十二GB"),
        ("血压150~160/90~95mmHg", "血压一百五十到一百六十，九十到九十五毫米汞柱"),
        ("R007至1.4%，2025H1收入", "R 零零七至百分之一点四，二零二五H 一收入"),
        ("B座2-6层买蛋x2个", "B座二到六层买蛋乘两个"),
        # Letters and digits.
        ("型号5800X3D，航次023W", "型号五八零零X三D，航次零二三W"),
        ("MD5: 7787C8E3", "MD 五: 七七八七C八E三"),
        ("conv2d_x和加重3d", "conv 二d_x和加重三天"),
        ("10W+，涨1.8x", "十万加，涨一点八倍"),
        ("第II类，II型，VI设计", "第二类，二型，VI设计"),
        (
            "停C区-037，上限24%/年，92#7.45元",
            "停C区杠零三七，上限百分之二十四每年，九十二号七点四五元",
        ),
        # Signs.
        ("占38%/41%，击杀/死亡", "占百分之三十八、百分之四十一，击杀、死亡"),
        ("GB/T和f/4，同一个/24 CIDR块", "GB T和f 四，同一个斜杠二十四 CIDR块"),
        ("求x^2-x+1，1e-5，10^-6", "求x的平方减x加一，一乘十的负五次方，十的负六次方"),
        ("用ls -l /etc/a", "用ls 杠l 斜杠etc斜杠a"),
        ("在~/.zshrc加$HOME，kill -9", "在波浪号斜杠点zshrc加HOME，kill 杠九"),
        ("i**2和i*i，n-1，i%2==0", "i的平方和i乘i，n减一，i模二等于零"),
        ("a->b，x&&y", "a箭头b，x并且y"),
        ("求π/2，若a:b=2:3", "求二分之派，若a比b等于二比三"),
        # Ranges of units, and what letters mean behind digits.
        ("用0.5-1.5mm2的，-20°C~+60°C", "用零点五到一点五平方毫米的，负二十摄氏度到正六十摄氏度"),
        ("跑了3d4h，女，63y，2v5", "跑了三天四小时，女，六十三岁，二v 五"),
        ("$13.3B，周三19:30，80一针", "一百三十三亿美元，周三，十九点三十分，八十，一针"),
        ("list -1 ，head -1 a", "list 负一 ，head 杠一 a"),  # the brackets of an index are spaces
        # Years without their word, and what only looks like one.
        ("《歌手2024》，至2025.9", "《歌手二零二四》，至二零二五年九月"),
        ("原价2013现1998出", "原价两千零一十三现一千九百九十八出"),
    ],
)
def test_shapes_have_a_reading_without_a_word_for_them(text: str, words: str) -> None:
    assert read_chinese(text) == words


def test_text_without_anything_to_read_stays() -> None:
    text = "他说“你好”……然后——走了！May I march?"
    assert read_chinese(text) == text


@settings(max_examples=150, deadline=None)
@given(st.text(alphabet='0123456789 .,:/-$%°#x@&+=年月日个第点ap\\"', max_size=24))
def test_no_digit_is_left(text: str) -> None:
    assert not re.search(r"\d", read_chinese(text))
