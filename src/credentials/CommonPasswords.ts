/**
 * Common passwords of at least 12 characters: the most leaked ones, known phrases, and patterns behind most others.
 * Shorter passwords are refused for their length.
 */
import * as Effect from "effect/Effect"
import { readFile } from "node:fs/promises"
import { fileURLToPath } from "node:url"
import { sha256 } from "#src/crypto/Crypto.ts"

const phrases = new Set(
  `
  iloveyouforever iloveyousomuch iloveyoubaby1 ihateyou12345 ilovemyfamily ilovejesus123 jesuschrist1 jesusislord1
  godisgood123 trustno1trustno1 letmeinletmein letmein12345 letmein123456 letmeinplease welcome12345 welcome123456
  welcomewelcome welcome2024! welcome2025! welcome2026! changeme1234 changeme12345 changemechangeme changemenow1
  administrator administrator1 administrator123 adminadminadmin adminadmin123 admin1234567 admin12345678 rootrootroot
  superadmin123 supersecret123 supersecretpassword verysecret123 topsecret123 secretsecret secret123456 secretpassword
  defaultpassword temporarypassword temppassword1 testtesttest testpassword testpassword1 testing12345 test12345678
  guestguestguest useruseruser user12345678 masterpassword mypassword123 mypassword1234 thisismypassword
  mynewpassword yourpassword nopassword123 newpassword12 newpassword123 oldpassword123 passwordpassword
  passwordpassword1 correcthorsebatterystaple correct horse battery staple opensesame123 sesameopen123
  princess1234 princess12345 sunshine1234 sunshine12345 football1234 football12345 baseball1234 baseball12345
  basketball12 basketball123 superman1234 superman12345 batmanbatman batman123456 spiderman123 spiderman1234
  starwars1234 starwars12345 pokemon12345 pokemon123456 dragondragon dragon123456 monkeymonkey monkey123456
  shadow123456 michael12345 michael123456 jordan123456 charlie12345 charlie123456 liverpoolfc1 liverpool1234
  manchesterunited chelseafc123 arsenal12345 barcelona123 barcelona1234 realmadrid123 juventus1234
  computer1234 computer12345 internet1234 whatever1234 whatever12345 fuckyou12345 fuckyou123456 fuckoff12345
  blink182blink182 myspace12345 facebook1234 facebook12345 google123456 linkedin1234 linkedinlinkedin
  instagram123 samsung12345 iphone123456 microsoft123 windows12345 mustang12345 corvette1234 ferrari12345
  summer2024summer summer2025summer winter2024winter winter2025winter spring2025spring autumn2025autumn
  butterfly123 butterfly1234 chocolate123 chocolate1234 strawberry12 strawberry123 elizabeth123 elizabeth1234
  alexander123 alexander1234 christopher1 christopher12 christopher123 jonathan1234 jennifer1234 jessica12345
  stephanie123 stephanie1234 mercedesbenz motherfucker motherfucker1 happybirthday happybirthday1 thequickbrownfox
  tobeornottobe abracadabra1 abracadabra123 ncc1701dncc1701d thx1138thx1138 1q2w3e4r5t6y 1q2w3e4r5t6y7u 1q2w3e4r5t6y7u8i
  q1w2e3r4t5y6 q1w2e3r4t5y6u7 1qaz2wsx3edc 1qaz2wsx3edc4rfv 1qazxsw23edc zaq12wsxcde3 zaq1zaq1zaq1 1qaz1qaz1qaz
  !qaz2wsx3edc !qaz@wsx#edc qazwsxedcrfv qazwsxedcrfvtgb qazwsxedc123 qweasdzxc123 asdqwe123456 qweqweqweqwe
  asdasdasdasd zxczxczxczxc qwerasdfzxcv 1234qwerasdf 1234qwerasdfzxcv qwer1234asdf qwer1234qwer asdf1234asdf
  abcd1234abcd abcd12345678 abc123abc123 abcabcabcabc aaa111aaa111 a1b2c3d4e5f6 a1b2c3d4e5f6g7 1a2b3c4d5e6f 112233445566
  11223344556677 123123123123 123321123321 121212121212 131313131313 102030405060 123456654321 1234567887654321
  147258369147 147258369000 159357159357 159753159753 741852963741 987654321987 314159265358 3141592653589 271828182845
  `
    .split("\n")
    .flatMap((line) => line.trim().split(/\s+/))
    .filter((word) => word.length >= 12)
)

/** Keyboard walks: a password that is part of one, in either direction, is a pattern. */
const walks = [
  "01234567890123456789012345678901234567890",
  "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz",
  "qwertyuiopasdfghjklzxcvbnmqwertyuiopasdfghjklzxcvbnm",
  "qwertzuiopasdfghjklyxcvbnm",
  "azertyuiopqsdfghjklmwxcvbn",
  "qwertyuiop[]asdfghjkl;'zxcvbnm,./",
  "`1234567890-=`1234567890-=",
  "!@#$%^&*()_+!@#$%^&*()_+"
].flatMap((walk) => [walk, [...walk].reverse().join("")])

/** Words that surrounding digits do not improve. */
const stems = [
  "password",
  "passwort",
  "passw0rd",
  "p@ssword",
  "p@ssw0rd",
  "pa55word",
  "qwerty",
  "qwertyuiop",
  "ampoule"
]

/** Whether the text repeats a piece of 1 to 4 characters. */
const repeats = (text: string): boolean => /^(.{1,4})\1+(.{0,3})$/su.test(text)

/** Whether the password is a known phrase or pattern, in any case. */
export const isPattern = (password: string): boolean => {
  const text = password.toLowerCase()
  return (
    phrases.has(text) ||
    phrases.has(text.replaceAll(/\s/gu, "")) ||
    repeats(text) ||
    walks.some((walk) => walk.includes(text)) ||
    stems.includes(text.replaceAll(/[\d\s!?.,@#$%&*_+-]+/gu, "").trim()) ||
    stems.includes(text.replace(/^[\d\W_]+/u, "").replace(/[\d\W_]+$/u, ""))
  )
}

/** `list`: fingerprints of `length` bytes each, sorted. */
export const holds = (list: Buffer, length: number, fingerprint: Buffer): boolean => {
  let low = 0
  let high = list.length / length
  while (low < high) {
    const middle = (low + high) >> 1
    const order = fingerprint.compare(list, middle * length, (middle + 1) * length)
    if (order === 0) return true
    if (order < 0) high = middle
    else low = middle + 1
  }
  return false
}

/**
 * `common-passwords.bin`: the 10,000 most common passwords of at least 12 characters. Each is stored in lower case, as
 * the first 5 bytes of its SHA-256, sorted and joined. OWASP ASVS 6.2.4 asks for the top 3,000 that a policy accepts.
 * One in a hundred million other passwords collides by chance.
 *
 * Source: ten million passwords published by Mark Burnett. The OWASP project SecLists ranks the first million of them
 * (MIT license, copyright Daniel Miessler).
 */
export const fingerprintLength = 5

/**
 * Read when a person sets a password, so that a start does not pay for it. The file lies beside this module, or beside
 * the bundle.
 */
export const fingerprints: Effect.Effect<Buffer> = Effect.promise(() =>
  readFile(fileURLToPath(new URL("./common-passwords.bin", import.meta.url)))
)

const isListed = (password: string): Effect.Effect<boolean> =>
  Effect.map(fingerprints, (list) =>
    holds(list, fingerprintLength, sha256(password.toLowerCase()).subarray(0, fingerprintLength))
  )

/** Whether the password is one of the most common, in any case. `password`: in NFC. */
export const isCommon = (password: string): Effect.Effect<boolean> =>
  isPattern(password) ? Effect.succeed(true) : isListed(password)
