"""Mandarin forms: by class, how people write a value, and every way to say it."""

from __future__ import annotations

import random
from collections.abc import Iterator

from .form import Form
from .saying import han, han_call, han_decimal, han_digits


def forms(seed: int = 0) -> list[Form]:
    """Return forms of all classes, with values drawn by ``seed``."""
    rng = random.Random(seed)
    return [form for make in _MAKERS for _ in range(2) for form in make(rng)]


def _numbers(rng: random.Random) -> Iterator[Form]:
    n = rng.randint(13, 99)
    yield Form("数", f"{n}只猫", f"{han(n)}只猫")
    big = rng.randint(10, 99) * 1000 + 345
    yield Form("数", f"{big:,}人", f"{han(big)}人")
    yield Form("数", f"{n}.{n % 9 + 1}亿", f"{han_decimal(f'{n}.{n % 9 + 1}')}亿")
    yield Form("数", f"第{n}名", f"第{han(n)}名")
    yield Form("数", f"{n}%", f"百分之{han(n)}")
    yield Form("数", f"3/{n % 5 + 4}的人", f"{han(n % 5 + 4)}分之三的人")
    yield Form("数", f"-{n}", f"负{han(n)}")


def _versions(rng: random.Random) -> Iterator[Form]:
    a, b, c, n = rng.randint(1, 9), rng.randint(1, 19), rng.randint(3, 18), rng.randint(1, 9)
    core = f"{han(a)}点{han(b)}点{han(c)}"
    yield Form("版本", f"版本{a}.{b}.{c}", f"版本{core}")
    yield Form("版本", f"{a}.{b}.{c}rc{n}", f"{core}rc{han(n)}")
    yield Form("版本", f"v{a}.{b}.{c}-beta.{n}", f"(v|版本)?{core}beta点?{han(n)}")
    yield Form("版本", f"rc-{a}.beta.{n}", f"rc{han(a)}点beta点?{han(n)}")
    yield Form("版本", f"附录B.{n}", f"附录b点?{han(n)}")
    yield Form("版本", f"第{a}.{n}节", f"第{han(a)}点{han(n)}节")
    yield Form("版本", f"附录A.{a}.{n}", f"附录a点?{han(a)}点{han(n)}")


def _dates(rng: random.Random) -> Iterator[Form]:
    y, m, d = rng.randint(1901, 2029), rng.randint(1, 12), rng.randint(13, 28)
    full = f"{han_digits(str(y))}年{han(m)}月{han(d)}(日|号)"
    yield Form("日期", f"{y}年{m}月{d}日", full)
    yield Form("日期", f"{y}.{m}.{d}", full)
    yield Form("日期", f"{y}-{m:02}-{d:02}", full)
    yield Form("日期", f"{y}/{m}/{d}", full)
    yield Form("日期", f"{m}月{d}号", f"{han(m)}月{han(d)}号")
    years = f"{han_digits('2021')}(年)?[到至]{han_digits('2022')}"
    yield Form("日期", "2021-2022财年", f"{years}财年")
    yield Form("日期", "2021-2022学年", f"{years}学年")
    yield Form("日期", "2021—2022年", f"{years}年")
    yield Form("日期", "2021/22赛季", f"{han_digits('2021')}(年)?[到至]?(二二|二零二二|二十二)赛季")
    hour, minute = rng.randint(3, 12), rng.randint(10, 59)
    clock = f"{han(hour)}点{han(minute)}分?"
    yield Form("时间", f"下午{hour}:{minute}", f"下午{clock}")
    yield Form("时间", f"{hour}:{minute}开始", f"{clock}开始")
    yield Form(
        "时间",
        f"{y}-{m:02}-{d:02}T{hour:02}:{minute}:00+08:00",
        f"{full}{clock}(零秒)?(东八区|加八(小时)?|加零?八点(零分)?)",
        True,
    )
    yield Form("时间", f"{y}-{m:02}-{d:02} {hour:02}:{minute}", f"{full}{clock}", True)
    yield Form("时间", f"周二{m:02}/{d:02}", f"周二{han(m)}月{han(d)}(日|号)")


def _money(rng: random.Random) -> Iterator[Form]:
    n = rng.randint(13, 99)
    yield Form("钱", f"￥{n}", f"{han(n)}(元|块)")
    yield Form("钱", f"${n}", f"{han(n)}美元")
    yield Form("钱", f"~${n}", f"(大约|约|大概){han(n)}美元")
    yield Form("钱", f"{n}.5元", f"{han(n)}点五元")
    yield Form("钱", f"{n}万元", f"{han(n)}万元")
    yield Form("钱", f"¥{n}/月", f"{han(n)}元每月|每月{han(n)}元")
    yield Form("钱", f"<${n}", f"(小于|低于|不到|少于){han(n)}美元")


def _scores(rng: random.Random) -> Iterator[Form]:
    a, b = rng.randint(61, 99), 100
    yield Form(
        "分数", f"得分{a}/{b}", f"得分{han(b)}分之{han(a)}|得分{han(a)}(比|，)?(一百|满分一百)"
    )
    yield Form(
        "分数", f"{a}/{b}分", f"{han(b)}分之{han(a)}分?|{han(a)}(比)?一百分|一百分之{han(a)}分"
    )
    yield Form("分数", f"血压{a + 60}/{a}", f"血压{han(a + 60)}(比|到|，)?{han(a)}", True)
    yield Form(
        "分数", f"血压{a + 60}/{a}mmHg", f"血压{han(a + 60)}(比|到|，)?{han(a)}毫米汞柱", True
    )
    yield Form("分数", "比分3:1", "比分三比一")
    yield Form("分数", "以3-1获胜", "以三比一获胜")


def _ranges(rng: random.Random) -> Iterator[Form]:
    a = rng.randint(13, 40)
    low, high = han(a), han(a + 5)
    yield Form("范围", f"{a}-{a + 5}天", f"{low}[到至]{high}天")
    yield Form("范围", f"{a}~{a + 5}℃", f"{low}(摄氏)?度?[到至]{high}(摄氏)?度")
    yield Form("范围", f"{a}%-{a + 5}%", f"百分之{low}[到至]百分之{high}")
    yield Form("范围", f"第{a}-{a + 5}页", f"第{low}[到至]第?{high}页")
    yield Form("比例", "比例尺1:25,000", "比例尺一比(二|两)万五千")
    yield Form("比例", f"以1:{a}的比例", f"以一比{low}的比例")
    b = rng.randint(3, 9)
    dash = "(杠|之|的)?"
    yield Form("编号", f"图{b}-{b + 1}", f"图{han(b)}{dash}{han(b + 1)}")
    yield Form("编号", f"表{b + 1}-{b}", f"表{han(b + 1)}{dash}{han(b)}")
    yield Form("编号", f"如图{b}-{b + 1}所示", f"如图{han(b)}{dash}{han(b + 1)}所示")
    yield Form("编号", f"图{b}.{b + 1}", f"图{han(b)}点{han(b + 1)}")


def _names(rng: random.Random) -> Iterator[Form]:
    n, four = str(rng.randint(101, 989)), str(rng.randint(1101, 8999))
    both = f"({han_call(n)}|{han(int(n))})"
    dash = "杠?"
    yield Form("名称", f"B-{n}室", f"b{dash}{han_call(n)}室")
    yield Form("名称", f"A{n}室", f"a{han_call(n)}室")
    yield Form("名称", f"CA{n}航班", f"ca{han_call(n)}航班")
    yield Form("名称", f"MU{four}航班", f"mu{han_call(four)}航班")
    yield Form("名称", f"{n}国道", f"{han_call(n)}国道")
    yield Form("名称", f"G{n}国道", f"g{han_call(n)}国道")
    yield Form("名称", f"K{n[:2]}路", f"k({han(int(n[:2]))}|{han_call(n[:2])})路")
    yield Form("名称", f"{n}路公交车", f"{both}路公交车")
    yield Form("名称", "拨打119", "拨打(幺|一)(幺|一)九")
    yield Form("名称", "打110报警", "打(幺|一)(幺|一)零报警")
    yield Form("名称", "叫120", "叫(幺|一)二零")
    yield Form("名称", "315晚会", "三(幺|一)五晚会")
    yield Form("名称", "911事件", "九(幺|一)(幺|一)事件")
    yield Form("名称", f"分机{four}", f"分机{han_call(four)}")
    yield Form("名称", "真是666", "真是六六六")
    yield Form("名称", "RTX3080", "rtx(三零八零|三千零八十|三十八十|三零八十)")
    yield Form("名称", "RTX 4090显卡", "rtx(四零九零|四千零九十)显卡")
    yield Form("名称", f"G{four}次列车", f"g{han_call(four)}次列车")
    yield Form("名称", f"验证码{four}{n}", f"验证码{han_call(four + n)}")
    phone = f"138{four}{four}"
    yield Form("名称", f"电话{phone}", f"电话{han_call(phone)}", True)


def _units(rng: random.Random) -> Iterator[Form]:
    n = rng.choice((4, 8, 16, 32, 64))
    said = han(n)
    yield Form("单位", f"{n}万km²", f"{said}万平方(公里|千米)")
    yield Form("单位", f"{n}GB内存", f"{said}(GB|吉字节|G|个?吉|吉比特)内存")
    yield Form("单位", f"{n}km/h", f"(每小时{said}(公里|千米)|{said}(公里|千米)(每|一)小时)")
    yield Form("单位", f"{n}.5kg", f"{said}点五(千克|公斤)")
    yield Form("单位", f"~{n}℃", f"(大约|约|大概){said}(摄氏)?度")
    yield Form("单位", f"-{n}℃", f"(负|零下){said}(摄氏)?度")
    yield Form("单位", f"{n}cm", f"{said}(厘米|公分)")
    yield Form("单位", f"{n}°22′", f"{said}度二十二分")
    yield Form("单位", f"{n}mg/L", f"{said}毫克每升|每升{said}毫克")
    yield Form("单位", f"{n}㎡", f"{said}(平方米|平米)")
    yield Form("单位", f"{n}MB/s", f"{said}(MB|兆字节|兆|M)每秒|每秒{said}(MB|兆字节|兆)")


def _symbols(rng: random.Random) -> Iterator[Form]:
    n = rng.randint(13, 90)
    said = han(n)
    less, more = "(小于|低于|不到|少于)", "(大于|高于|超过|多于)"
    yield Form("符号", f"<{n}分", f"{less}{said}分")
    yield Form("符号", f">{n}", f"{more}{said}")
    yield Form("符号", f"≥{n}岁", f"(大于等于|不小于|至少){said}岁")
    yield Form("符号", f"~{n}个", f"(大约|约|大概){said}个")
    yield Form("符号", f"≈{n}", f"(约等于|约|大约){said}")
    yield Form("符号", f"±{n}", f"正负{said}")
    yield Form("符号", "∠B等于∠C", "角b等于角c")
    yield Form("符号", "C#语言", "c(sharp|井|井号)语言")
    yield Form("符号", "C++语言", "c(加加|plusplus)语言")
    yield Form("符号", f"#{n}", f"(井号)?{said}号?")
    yield Form("符号", f"{n}+人", f"{said}(多|加|以上)人?|{said}加人")
    yield Form("符号", f"{n}×3", f"{said}乘以?三")
    yield Form("符号", "172.16.0.0/12", "(一|幺)七二点(一|幺)六点零点零(斜杠|杠)((一|幺)二|十二)")
    yield Form("符号", "5:3的比例", "五比三的比例")


_MAKERS = (_numbers, _versions, _dates, _money, _scores, _ranges, _names, _units, _symbols)
