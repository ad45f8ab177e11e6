"""Mandarin forms: by class, how people write a value, and every way to say it."""

from __future__ import annotations

import random
from collections.abc import Iterator

from . import mandarin_dense
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
    days = f"{han(m)}月{han(d)}(日|号)?[到至]{han(d + 2)}日"
    yield Form("日期", f"{m}月{d}-{d + 2}日", days)
    yield Form("日期", f"{m}月{d}日—{d + 2}日", days)
    school = f"{han_digits('2010')}年九月[到至]{han_digits('2014')}年六月"
    yield Form("日期", "2010.09-2014.06", school)
    yield Form("日期", f"{y}Q3", f"{han_digits(str(y))}(年)?(第三季度|三季度|q三)")
    yield Form("日期", f"{y}级新生", f"{han_digits(str(y))}级新生")
    yield Form("日期", "1980s", "(一九八零|八十)年代|二十世纪八十年代")
    early = rng.choice((221, 618, 907, 476))
    yield Form("日期", f"公元{early}年", f"公元{han_digits(str(early))}年")
    yield Form("日期", "公元618-907年", f"公元{han_digits('618')}(年)?[到至]{han_digits('907')}年")
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
    yield Form("时间", "8:00-17:30", "八点[到至]十七点(三十分?|半)")
    yield Form("时间", f"下午2-{hour}点", f"下午(二|两)(点)?[到至]{han(hour)}点")
    yield Form("时间", f"用时{hour}:{minute}", f"用时{han(hour)}分{han(minute)}秒")
    yield Form("时间", f"{hour}:{minute}:07", f"{clock}(零|〇)?七秒")
    yield Form("时间", f"{hour}pm", f"(下午|晚上){han(hour)}点")
    # 二十 would be one number: a reader pauses.
    yield Form("时间", f"周二{m:02}/{d:02}", f"周二{han(m)}月{han(d)}(日|号)", True)


def _money(rng: random.Random) -> Iterator[Form]:
    n = rng.randint(13, 99)
    yield Form("钱", f"￥{n}", f"{han(n)}(元|块)")
    yield Form("钱", f"${n}", f"{han(n)}美元")
    yield Form("钱", f"~${n}", f"(大约|约|大概){han(n)}美元")
    yield Form("钱", f"{n}.5元", f"{han(n)}点五元")
    yield Form("钱", f"{n}万元", f"{han(n)}万元")
    yield Form("钱", f"¥{n}/月", f"{han(n)}元每月|每月{han(n)}元")
    yield Form("钱", f"<${n}", f"(小于|低于|不到|少于){han(n)}美元")
    yield Form("钱", f"¥{n}-{n + 50}", f"{han(n)}(元)?[到至]{han(n + 50)}元")
    yield Form("钱", f"HK${n}亿", f"{han(n)}亿港(元|币)")
    yield Form("钱", f"{n}元/人", f"{han(n)}元(每|一)人|每人{han(n)}元")
    yield Form("钱", "月薪8k-12k", "月薪八千[到至](一万二千|一万两千|一万二|十二千)")
    yield Form("钱", f"满300-{n}", f"满(三百)减{han(n)}")
    yield Form("钱", "打85折", "打八五折")
    yield Form("钱", f"€{n}.5", f"{han_decimal(f'{n}.5')}欧元")
    yield Form("钱", f"{n},000.00元", f"{han(n * 1000)}(点零零)?元")


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
    c, d = rng.randint(10, 24), rng.randint(25, 30)
    yield Form("分数", f"大比分{c}:{d}", f"大比分{han(c)}比{han(d)}")
    yield Form("分数", f"以{c}:{d}落败", f"以{han(c)}比{han(d)}落败")
    yield Form("分数", f"{c}-{d}惜败对手", f"{han(c)}比{han(d)}惜败对手")
    yield Form(
        "分数",
        f"三局比分{d}-{c}、{c}-{d}",
        f"三局比分{han(d)}比{han(c)}{han(c)}比{han(d)}",
        True,
    )
    yield Form("分数", "主队0-0战平客队", "主队零比零战平客队")
    yield Form("分数", "3/4杯牛奶", "四分之三杯牛奶")
    yield Form("分数", f"占比{c}.5%", f"占比百分之{han_decimal(f'{c}.5')}")


def _ranges(rng: random.Random) -> Iterator[Form]:
    a = rng.randint(13, 40)
    low, high, b_ = han(a), han(a + 5), rng.randint(3, 9)
    yield Form("范围", f"{a}-{a + 5}天", f"{low}[到至]{high}天")
    yield Form("范围", f"{a}~{a + 5}℃", f"{low}(摄氏)?度?[到至]{high}(摄氏)?度")
    yield Form("范围", f"{a}%-{a + 5}%", f"百分之{low}[到至]百分之{high}")
    yield Form("范围", f"第{a}-{a + 5}页", f"第{low}[到至]第?{high}页")
    yield Form("比例", "比例尺1:25,000", "比例尺一比(二|两)万五千")
    yield Form("比例", f"以1:{a}的比例", f"以一比{low}的比例")
    yield Form("比例", "16:9的屏幕", "十六比九的屏幕")
    yield Form("比例", f"配比为1:2:{a}", f"配比为一比二比{low}")
    yield Form("比例", f"兑水比例1:{a}0", f"兑水比例一比{han(a * 10)}")
    yield Form("比例", f"男女比{a}:{a + 5}", f"男女比{low}比{high}")
    yield Form("比例", f"按3:{b_}混合", f"按三比{han(b_)}混合")
    yield Form(
        "范围",
        f"{a}-{a + 5}km/h",
        f"(每小时{low}[到至]{high}公里|{low}[到至]{high}公里(每|一)小时)",
    )
    yield Form("范围", f"{a}-{a + 5}%", f"百分之{low}[到至](百分之)?{high}")
    yield Form("范围", f"{a}kg-{a + 5}kg", f"{low}(千克|公斤)[到至]{high}(千克|公斤)")
    yield Form("范围", f"-{a}~{a + 5}℃", f"(负|零下){low}(摄氏度|度)?[到至]{high}(摄氏)?度")
    yield Form("范围", f"{a}至{a + 5}岁", f"{low}至{high}岁")
    b = rng.randint(3, 9)
    dash = "(杠|之|的)?"
    yield Form("编号", f"式（{b}-{b + 1}）", f"式{han(b)}{dash}{han(b + 1)}", True)
    yield Form("编号", f"见图{b}-1和图{b}-2", f"见图{han(b)}{dash}一和图{han(b)}{dash}二")
    yield Form("编号", f"见p.{a}", f"见(第{low}页|p{low})")
    yield Form("编号", "GB/T 7714-2015", "gbt七七一四(杠|之)?二零一五")
    yield Form("编号", f"§{b}.{b + 1}", f"第?{han(b)}点{han(b + 1)}节?")
    case = f"（2023）京0105民初{a}号"
    yield Form("编号", case, f"二零二三京零(一|幺)零五民初{low}号", True)
    yield Form("编号", f"国发〔2021〕{a}号", f"国发二零二一{low}号", True)
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
    yield Form("名称", f"3-2-{four}室", f"三杠?二杠?{han_call(four)}室", True)
    yield Form("名称", f"C{n[:2]}登机口", f"c({han(int(n[:2]))}|{han_call(n[:2])})登机口")
    yield Form("名称", f"B座{four}", f"b座{han_call(four)}")
    yield Form("名称", "拨打12345热线", f"拨打{han_call('12345')}热线")
    yield Form("名称", f"010-6552{four}转{n}", f"{han_call('0106552' + four)}转{han_call(n)}", True)
    yield Form("名称", f"京A·{four}5", f"京a{han_call(four)}五")
    yield Form("名称", "301医院", f"{han_call('301')}医院")
    yield Form("名称", "波音737客机", "波音七三七客机")
    yield Form("名称", "歼-20战机", "歼二(十|零)战机")
    yield Form("名称", "东风-41导弹", "东风四(十)?(一|幺)导弹")
    yield Form("名称", "端口8080", "端口(八零八零|八千零八十)")
    yield Form("名称", f"S{n[:2]}省道", f"s({han(int(n[:2]))}|{han_call(n[:2])})省道")
    yield Form("名称", "G4京港澳高速", "g四京港澳高速")
    yield Form("名称", f"密码a{n[0]}b{n[2]}", f"密码a{han_call(n[0])}b{han_call(n[2])}")
    yield Form("名称", "i7-13700K处理器", "i七(一|幺)三七零零k处理器")
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
    yield Form("单位", f"{n}μg/m³", f"{said}微克每立方米|每立方米{said}微克")
    yield Form("单位", f"{n}mg/片", f"{said}毫克(每|一)片|每片{said}毫克")
    yield Form("单位", f"1米{n:02}", f"一米{han_digits(f'{n:02}')}")
    yield Form("单位", "9秒58", "九秒五八")
    yield Form("单位", "3×10^8m/s", "三乘(以)?十的八次方米每秒")
    yield Form("单位", f"{n}N·m", f"{said}牛(顿)?米")
    yield Form("单位", "1/125s快门", "一百二十五分之一秒快门")
    yield Form("单位", f"{n}.7°N", f"北纬{said}点七度")
    yield Form("单位", f"{n}±2℃", f"{said}(摄氏度)?正负(二|两)(摄氏)?度")
    yield Form("单位", f"{n}次/分", f"{said}次(每|一)分|每分(钟)?{said}次")
    yield Form("单位", f"{n}mmol/L", f"{said}毫摩尔每升|每升{said}毫摩尔")
    yield Form("单位", f"{n}×60×75cm", f"{said}乘六十乘七十五厘米")


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
    yield Form("符号", "杭州→黄山", "杭州(到|至)黄山")
    yield Form("符号", f"x≤{n}", f"x小于等于{said}")
    yield Form("符号", f"{n}*60*75", f"{said}乘六十乘七十五")
    yield Form("符号", "√16=4", "根号十六等于四")
    yield Form("符号", "△ABC的面积", "三角形abc的面积")
    yield Form("符号", f"{n}-13={n - 13}", f"{said}减十三等于{han(n - 13)}")
    yield Form("符号", "y=2x-1", "y等于(二|两)x减一")


_MAKERS = (
    _numbers,
    _versions,
    _dates,
    _money,
    _scores,
    _ranges,
    _names,
    _units,
    _symbols,
    *mandarin_dense.MAKERS,
)
