/** These bodies are expensive to read: texts that are nearly JSON, long pieces, ids. */
import { callOf, headOf, PATHS, pace, pick, post, type Row, type Target } from './attack.ts'

/** The length is a little below `--limit-body-bytes`. */
const BYTES = 1_990_000
const PIECES = ['{', '}', '[', ']', ',', ':', '"k"', '"0x":', '"0x"', '1', '""', '\\', '"', ' ']

type Body = { readonly name: string; readonly bytes: Buffer }
const repeated = (piece: string, bytes = BYTES) => Buffer.alloc(bytes, piece)
const many = <T>(count: number, make: (at: number) => T): T[] =>
  Array.from({ length: count }, (_, at) => make(at))
/** Puts a text in place of a request's parameters. */
const asParams = (middle: Buffer, method = 'eth_chainId') =>
  Buffer.concat([
    Buffer.from(`{"jsonrpc":"2.0","id":1,"method":"${method}","params":[`),
    middle,
    Buffer.from(']}'),
  ])
const withId = (id: string) =>
  Buffer.from(`{"jsonrpc":"2.0","method":"eth_chainId","params":[],"id":${id}}`)

/** Sends a body this often a second, each over its own connection. */
const bodyRow = (
  name: string,
  perSecond: number,
  next: (random: () => number, count: number) => Body,
): Row => ({
  name,
  make: (target: Target) => () =>
    pace(perSecond, (count) => {
      const { name: what, bytes } = next(target.random, count)
      post(target, what, [headOf(bytes.length, pick(target.random, PATHS)), bytes])
    }),
})
/** Sends bodies that are made beforehand, in a random order. */
const madeRow = (
  name: string,
  perSecond: number,
  make: (random: () => number) => readonly Body[],
): Row => ({
  name,
  make(target) {
    const bodies = make(target.random)
    return () =>
      pace(perSecond, () => {
        const { name: what, bytes } = pick(target.random, bodies)
        post(target, what, [headOf(bytes.length, pick(target.random, PATHS)), bytes])
      })
  },
})

/** Repeats two or three pieces: bare, as parameters, in a batch, after a long opening. */
function bracketBomb(random: () => number): Body {
  const unit = many(random() < 0.4 ? 2 : 3, () => pick(random, PIECES)).join('')
  const form = pick(random, ['bare', 'params', 'batch', 'deep'] as const)
  const capacity = BYTES - 100
  const name = `${form} ${unit}`
  if (form === 'params') return { name, bytes: asParams(repeated(unit, capacity)) }
  if (form === 'batch')
    return { name, bytes: Buffer.concat([Buffer.from('[{},'), repeated(unit, capacity)]) }
  if (form === 'deep')
    return { name, bytes: Buffer.concat([Buffer.alloc(60, '{"a":['), repeated(unit, capacity)]) }
  return { name, bytes: repeated(unit) }
}

const brokenTexts = (): readonly Body[] => [
  { name: 'lists inside lists, never closed', bytes: repeated('[') },
  { name: 'objects inside objects, never closed', bytes: repeated('{"a":') },
  { name: 'many lists, each as deep as allowed', bytes: asParams(deepLists()) },
  { name: 'an unterminated string', bytes: Buffer.concat([Buffer.from('"'), repeated('a')]) },
  { name: 'an unterminated string of quotes', bytes: repeated('\\"') },
  { name: 'backslashes', bytes: Buffer.concat([Buffer.from('["'), repeated('\\')]) },
  { name: 'strings of many backslashes', bytes: repeated(`"${'\\'.repeat(9_999)}"`) },
  { name: 'escapes', bytes: asParams(repeated(`"${'\\u0041'.repeat(100)}",`, 1_896_000)) },
  { name: 'escapes of single surrogates', bytes: repeated('["\\ud800\\udc00\\udc00",') },
  { name: 'keys that are id in escapes', bytes: repeated('{"\\u0069d":1,') },
  { name: 'byte order marks', bytes: repeated('\ufeff') },
  { name: 'zeros', bytes: Buffer.alloc(BYTES) },
  { name: 'zeros in a string', bytes: asParams(Buffer.from(`"${'\0'.repeat(1_900_000)}"`)) },
  { name: 'bytes that are not UTF-8', bytes: Buffer.alloc(BYTES, 0xff) },
  { name: 'UTF-8 cut short', bytes: Buffer.alloc(BYTES, Buffer.from([0xf0, 0x9f])) },
  { name: 'single surrogates', bytes: Buffer.alloc(BYTES, Buffer.from([0x22, 0xed, 0xa0, 0x80])) },
  { name: 'a string that is not UTF-8', bytes: asParams(quoted(Buffer.alloc(1_900_000, 0xc0))) },
  { name: 'commas', bytes: repeated(',') },
  { name: 'colons', bytes: repeated(':') },
  { name: 'spaces', bytes: repeated(' ') },
  { name: 'lines', bytes: repeated('\r\n\t ') },
  {
    name: 'as many values as allowed',
    bytes: asParams(Buffer.from(many(99_000, () => '[]').join())),
  },
  { name: 'keys that are addresses', bytes: asParams(keysOf(9_990, 20)) },
  { name: 'the same key', bytes: asParams(Buffer.from(`{${many(60, () => '"a":{}').join()}}`)) },
  { name: 'objects of 64 keys', bytes: asParams(Buffer.from(many(1_500, objectOf).join())) },
  { name: 'several ids in one object', bytes: repeated('{"id":1,"id":[') },
  { name: 'several params in one object', bytes: repeated('{"params":[],"params":[]},') },
  { name: 'empty batches', bytes: repeated('[],') },
  { name: 'words', bytes: asParams(repeated('true,false,null,', 1_200_000)) },
]
const deepLists = () =>
  Buffer.from(many(1_600, () => `${'['.repeat(60)}${']'.repeat(60)}`).join(','))
const quoted = (middle: Buffer) => Buffer.concat([Buffer.from('"'), middle, Buffer.from('"')])
const keysOf = (count: number, bytes: number) =>
  Buffer.from(
    `{${many(count, (at) => `"0x${at.toString(16).padStart(2 * bytes, '0')}":{}`).join()}}`,
  )
const objectOf = () => `{${many(60, (at) => `"k${at}":${at}`).join()}}`

const MEGABYTE = 1_000_000
const longPieces = (): readonly Body[] => [
  { name: 'a number', bytes: asParams(repeated('7', MEGABYTE)) },
  { name: 'a number below one', bytes: asParams(Buffer.from(`0.${'7'.repeat(1_900_000)}`)) },
  { name: 'an exponent', bytes: asParams(Buffer.from(`1e${'9'.repeat(MEGABYTE)}`)) },
  { name: 'numbers of 1,000 digits', bytes: asParams(repeated(`${'7'.repeat(999)},`, MEGABYTE)) },
  { name: 'a key', bytes: asParams(Buffer.from(`{"${'k'.repeat(MEGABYTE)}":1}`)) },
  { name: 'a key of hex', bytes: asParams(Buffer.from(`{"0x${'a'.repeat(MEGABYTE)}":1}`)) },
  { name: 'a key beyond ASCII', bytes: asParams(Buffer.from(`{"${'ж'.repeat(900_000)}":1}`)) },
  { name: 'a key of the envelope', bytes: Buffer.from(`{"${'k'.repeat(MEGABYTE)}":1}`) },
  { name: 'a method', bytes: Buffer.from(callOf('m'.repeat(MEGABYTE), [])) },
  { name: 'a method beyond ASCII', bytes: Buffer.from(callOf('ж'.repeat(900_000), [])) },
  { name: 'a method of quotes', bytes: Buffer.from(callOf('"'.repeat(900_000), [])) },
  { name: 'a version', bytes: Buffer.from(`{"jsonrpc":"${'2'.repeat(MEGABYTE)}","id":1}`) },
  ...LONG_HEX.map(([method, ...params]) => ({
    name: `hex for ${method}`,
    bytes: Buffer.from(callOf(method, params)),
  })),
]
const HEX = `0x${'f'.repeat(MEGABYTE)}`
const LONG_HEX: readonly (readonly [method: string, ...params: unknown[]])[] = [
  ['eth_getBalance', HEX, 'latest'],
  ['eth_getBalance', `0x${'0'.repeat(40)}`, HEX],
  ['eth_getBlockByNumber', HEX, false],
  ['eth_getBlockByNumber', 'ж'.repeat(900_000), false],
  ['eth_getBlockByHash', HEX, false],
  ['eth_getTransactionReceipt', HEX],
  ['eth_getStorageAt', `0x${'0'.repeat(40)}`, HEX, 'latest'],
  ['eth_call', { to: HEX }, 'latest'],
  ['eth_call', { gas: HEX }, 'latest'],
  ['eth_call', { value: `0x${'0'.repeat(MEGABYTE)}1` }, 'latest'],
  ['eth_feeHistory', HEX, 'latest', []],
  ['eth_getFilterChanges', HEX],
  ['eth_subscribe', 'n'.repeat(MEGABYTE)],
  ['eth_getLogs', { address: HEX, topics: [HEX] }],
]

const LETTERS = 900_000
const lettersId = (): readonly Body[] =>
  ['é', 'ж', '中', '𝄞', '\u2028', '\uffff'].map((letter) => {
    const count = Math.min(LETTERS, Math.floor((BYTES - 100) / Buffer.byteLength(letter)))
    return { name: `${count} of ${escaped(letter)}`, bytes: withId(`"${letter.repeat(count)}"`) }
  })
const escaped = (letter: string) => JSON.stringify(letter).slice(1, -1)
const kindsOfIds = (): readonly Body[] =>
  [
    ['digits', '7'.repeat(LETTERS)],
    ['digits below one', `0.${'7'.repeat(LETTERS)}`],
    ['an exponent', `1e${'7'.repeat(LETTERS)}`],
    ['letters of a number that are not a number', '+-.eE'.repeat(300_000)],
    ['a float', '-1.5e-300'],
    ['a list', `[${'1,'.repeat(49_000)}1]`],
    ['an object', `{"a":"${'a'.repeat(LETTERS)}"}`],
    ['lists in lists', '['.repeat(60) + ']'.repeat(60)],
    ['escapes', `"${'\\u0416'.repeat(300_000)}"`],
    ['short escapes', `"${'\\n'.repeat(LETTERS)}"`],
    ['single surrogates', `"${'\\ud800'.repeat(300_000)}"`],
    ['quotes', `"${'\\"'.repeat(LETTERS)}"`],
    ['control characters', `"${'\\u0001'.repeat(300_000)}"`],
    ['letters', `"${'i'.repeat(1_900_000)}"`],
    ['true', 'true'],
    ['space before it', `${' '.repeat(LETTERS)}1`],
  ].map(([name, id]) => ({ name: name!, bytes: withId(id!) }))
/** Each of many requests in a batch has a long id. */
const idsOfBatch = (): Body => {
  const id = 'ж'.repeat(9_000)
  const body = `[${many(100, () => callOf('eth_chainId', [], id)).join()}]`
  return { name: '100 of 9,000 letters', bytes: Buffer.from(body) }
}

export const BODY_ROWS: readonly Row[] = [
  bodyRow("'}:' to 2 MB, 10/s", 10, () => ({ name: '}:', bytes: repeated('}:') })),
  bodyRow('\']"0x":\' to 2 MB, 10/s', 10, () => ({ name: ']"0x":', bytes: repeated(']"0x":') })),
  bodyRow('other brackets and separators to 2 MB, 10/s', 10, bracketBomb),
  madeRow('texts that are no JSON, 10/s', 10, brokenTexts),
  madeRow('a number, key, method, hex of a megabyte, 10/s', 10, longPieces),
  madeRow('ids of 900,000 letters beyond ASCII, 15/s', 15, lettersId),
  madeRow('ids of every kind, 15/s', 15, () => [...kindsOfIds(), idsOfBatch()]),
]
