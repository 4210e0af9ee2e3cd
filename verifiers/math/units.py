"""Units of measure: what they measure, how large they are, and which words cannot be one.

A unit is a product of powers of base dimensions with a factor. Words that are no unit of measure count as the name of
what is counted (`12 apples`), which is a dimension of its own, unless they change or take back the number before them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

Dimensions = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit: `factor` times the base unit of its dimensions.

    Attributes:
        dimensions: pairs of base dimension and power, sorted; ("apple", 1) is a dimension too.
        factor: the unit in base units (metre, gram, second, dollar, degree, byte, litre as cubic metre).
        counted: whether the dimensions are things counted rather than measured.
    """

    dimensions: Dimensions
    factor: Fraction
    counted: bool = False


def _table() -> dict[str, tuple[str, int, Fraction]]:
    """Word to dimension, power and factor."""
    rows = """
    length 1: m metre meter meters metres
    length 1000: km kilometre kilometer kilometers kilometres kms
    length 1/100: cm centimetre centimeter centimeters centimetres cms
    length 1/10: dm decimetre decimeter decimeters
    length 1/1000: mm millimetre millimeter millimeters millimetres
    length 1/1000000: micrometer micrometers micron microns
    length 1/1000000000: nm nanometer nanometers
    length 254/10000: in. inch inches
    length 3048/10000: ft foot feet
    length 9144/10000: yd yard yards yds
    length 1609344/1000: mi mile miles
    mass 1: g gram grams gramme grammes
    mass 1000: kg kilogram kilograms kilo kilos kgs
    mass 1/1000: mg milligram milligrams
    mass 1000000: tonne tonnes
    mass 45359237/100000: lb lbs pound_mass pound_masses
    mass 45359237/1600000: oz ounce ounces
    time 1: s sec secs second seconds
    time 1/1000: ms millisecond milliseconds
    time 60: min mins minute minutes
    time 3600: h hr hrs hour hours
    time 86400: day days
    time 604800: week weeks wk wks
    year 1: year years yr yrs
    year 1/12: month months
    year 10: decade decades
    year 100: century centuries
    money 1: dollar dollars usd bucks buck
    money 1/100: cent cents ¢ penny pennies
    money 1/4: quarter_coin
    money 1/10: dime dimes
    money 1/20: nickel nickels
    euro 1: euro euros eur
    sterling 1: pounds_sterling gbp
    rupee 1: rupee rupees rs inr
    yen 1: yen jpy
    yuan 1: yuan rmb cny
    angle 1: degree degrees deg degs
    angle 1/60: arcminute arcminutes
    angle 1/3600: arcsecond arcseconds
    radian 1: rad rads radian radians
    data 1: byte bytes
    data 1024: kb kilobyte kilobytes
    data 1048576: mb megabyte megabytes
    data 1073741824: gb gigabyte gigabytes
    bit 1: bit bits
    force 1: newton newtons
    energy 1: joule joules
    energy 1000: kj kilojoule kilojoules
    power 1: watt watts
    power 1000: kw kilowatt kilowatts
    frequency 1: hz hertz
    frequency 1000: khz kilohertz
    frequency 1000000: mhz megahertz
    voltage 1: volt volts
    current 1: amp amps ampere amperes
    resistance 1: ohm ohms
    pressure 1: pascal pascals pa
    pressure 1000: kpa
    amount 1: mol mole moles
    temperature 1: kelvin kelvins
    celsius 1: celsius
    fahrenheit 1: fahrenheit
    percent 1: percent percents percentage pct
    """
    table: dict[str, tuple[str, int, Fraction]] = {}
    for row in rows.strip().splitlines():
        head, _, words = row.strip().partition(": ")
        dimension, factor = head.split()
        for word in words.split():
            table[word] = (dimension, 1, Fraction(factor))
    for word in ("l", "litre", "liter", "litres", "liters"):
        table[word] = ("length", 3, Fraction(1, 1000))
    for word in ("ml", "millilitre", "milliliter", "millilitres", "milliliters"):
        table[word] = ("length", 3, Fraction(1, 1_000_000))
    for word in ("cc",):
        table[word] = ("length", 3, Fraction(1, 1_000_000))
    for word in ("gallon", "gallons", "gal"):
        table[word] = ("gallon", 1, Fraction(1))
    for word in ("quart", "quarts"):
        table[word] = ("gallon", 1, Fraction(1, 4))
    for word in ("pint", "pints"):
        table[word] = ("gallon", 1, Fraction(1, 8))
    for word in ("acre", "acres"):
        table[word] = ("length", 2, Fraction("4046.8564224"))
    for word in ("hectare", "hectares", "ha"):
        table[word] = ("length", 2, Fraction(10_000))
    return table


MEASURES = _table()
# Of one letter, or otherwise too like a variable: units only where they are set as text or the reference has a unit.
SHY = frozenset({"m", "g", "s", "h", "l", "in", "pa", "rs", "ha", "cc", "ms", "kb", "mb", "gb", "deg"})
COMPOUNDS = {
    "mph": (("mile", 1), ("hour", -1)),
    "kph": (("km", 1), ("hour", -1)),
    "kmh": (("km", 1), ("hour", -1)),
    "fps": (("foot", 1), ("second", -1)),
    "rpm": (("revolution", 1), ("minute", -1)),
    "sqft": (("foot", 2),),
    "mps": (("m", 1), ("second", -1)),
}
POWER_WORDS = {"square": 2, "squared": 2, "sq": 2, "cubic": 3, "cubed": 3, "cu": 3}
GENERIC = frozenset({"unit", "units", "u", "old"})
"""`12 units` says no more than `12`; with a power (`square units`) likewise."""

NO_UNITS = frozenset(
    """
    a an the and or nor not no none yes is are was were be been being am isnt arent wasnt do does did done has have had
    if then else but because so thus hence therefore as than that this these those which who what when where why how
    it its they them he she we you i me my our your their there here
    at least most more less greater fewer smaller larger bigger over under above below between within beyond up down to
    from with without except about approximately approx approximate around roughly nearly almost exactly maybe perhaps
    possibly probably either neither both any all some many few several each every other another others again also too
    off only just even odd still yet already
    wrong right correct incorrect false true invalid valid answer answers solution solutions value values result results
    impossible undefined unknown none nothing never always
    plus minus times divided multiplied equal equals equaling negative positive squared cubed root factorial mod modulo
    remainder pi infinity infinite half third quarter fourth fifth sixth seventh eighth ninth tenth
    thousand thousands million millions billion billions trillion trillions hundred hundreds dozen dozens score gross
    pair pairs lakh lakhs crore crores k bn mn
    one two three four five six seven eight nine ten
    can cannot could may might must should would will shall wont dont doesnt didnt cant
    true false nan null undefined lambda import def return print eval exec
    """.split()
)
_IRREGULAR = {
    "people": "person",
    "persons": "person",
    "children": "child",
    "men": "man",
    "women": "woman",
    "mice": "mouse",
    "geese": "goose",
    "feet": "foot",
    "teeth": "tooth",
    "dice": "die",
}
_MOST_WORDS = 5


def counted(word: str) -> str:
    """One form for the singular and the plural of what is counted: `apple` for apples."""
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("ches", "shes", "xes", "sses")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") and len(word) > 2 else word


def unit_of(factors: Sequence[tuple[str, int]]) -> Unit | None:
    """The unit that is a product of words with powers; None if one of them cannot belong to a unit.

    Several words that are no measures in a row (`red apples`) name one thing that is counted.
    """
    return _unit_of(tuple(factors))


@lru_cache(maxsize=4096)
def _unit_of(factors: tuple[tuple[str, int], ...]) -> Unit | None:
    dimensions: dict[str, int] = {}
    factor = Fraction(1)
    nouns: list[str] = []
    for word, power in factors:
        lowered = word.casefold()
        if lowered in COMPOUNDS and power == 1:
            inner = unit_of(COMPOUNDS[lowered])
            if inner is None:
                return None
            factor *= inner.factor
            for dimension, inner_power in inner.dimensions:
                dimensions[dimension] = dimensions.get(dimension, 0) + inner_power
        elif lowered in MEASURES:
            dimension, base_power, size = MEASURES[lowered]
            dimensions[dimension] = dimensions.get(dimension, 0) + base_power * power
            factor *= size**power
        elif lowered in GENERIC:
            continue
        elif lowered in NO_UNITS or not lowered.isalpha():
            return None
        elif power < 0:
            dimensions[counted(lowered)] = dimensions.get(counted(lowered), 0) + power
        else:
            nouns.append(counted(lowered))
    if len(factors) > _MOST_WORDS or ("percent" in dimensions and (nouns or len(dimensions) > 1)):
        return None
    if nouns:
        dimensions[" ".join(nouns)] = dimensions.get(" ".join(nouns), 0) + 1
    kept = tuple(sorted((name, power) for name, power in dimensions.items() if power))
    return Unit(kept, factor, counted=bool(nouns))
