import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { bytes } from '../../../rpc/json/codecs.ts'
import { quantityResult } from '../../../rpc/json/results.ts'
import { scan } from '../../../rpc/json/scan.ts'
import { frontMethod, type Method, param } from '../../../rpc/method/method.ts'
import { memoryChain } from '../../fixtures/memory-chain.ts'
import { type Reply, testRpc } from '../../fixtures/rpc.ts'

const call = (rest: string) => `{"jsonrpc":"2.0",${rest}}`
const chainId = call('"id":1,"method":"eth_chainId","params":[]')
const error = (code: number, message: string, id = 'null') =>
  `{"jsonrpc":"2.0","id":${id},"error":{"code":${code},"message":${JSON.stringify(message)}}}`
const ok = (id: string) => `{"jsonrpc":"2.0","id":${id},"result":"0xc4"}`
const only = (...methods: Method[]) => new Map(methods.map((method) => [method.name, method]))

describe('envelopes', () => {
  const rpc = testRpc()
  const notFound = (name: string) => `the method ${name} does not exist/is not available`
  const cases: [name: string, body: string, answer: string | undefined][] = [
    ['a call', chainId, ok('1')],
    ['white space around it', `\n  ${chainId}\t`, ok('1')],
    ['invalid JSON', '{', error(-32700, 'parse error')],
    ['an empty body', '', undefined],
    ['a number', '1', error(-32600, 'invalid request')],
    ['null', 'null', error(-32600, 'invalid request')],
    ['a string', '"x"', error(-32600, 'invalid request')],
    ['a byte order mark', `\ufeff${chainId}`, error(-32700, 'parse error')],
    ['trailing garbage', `${chainId} x`, error(-32700, 'parse error')],
    ['NaN', call('"id":NaN,"method":"eth_chainId"'), error(-32700, 'parse error')],
    ['a NUL', `${chainId}\0`, error(-32700, 'parse error')],
    [
      'an unterminated string',
      '{"jsonrpc":"2.0',
      error(-32700, 'parse error: unterminated string'),
    ],
    ['duplicate keys: the last', call('"id":1,"id":2,"method":"eth_chainId"'), ok('2')],
    ['extra fields', call('"id":1,"method":"eth_chainId","foo":{}'), ok('1')],
    ['no params', call('"id":1,"method":"eth_chainId"'), ok('1')],
    ['null params', call('"id":1,"method":"eth_chainId","params":null'), ok('1')],
    [
      'params as an object',
      call('"id":1,"method":"eth_chainId","params":{}'),
      error(-32602, 'non-array args', '1'),
    ],
    [
      'params as a string',
      call('"id":1,"method":"eth_chainId","params":"x"'),
      error(-32602, 'non-array args', '1'),
    ],
    ['no method', call('"id":1'), error(-32600, 'invalid request', '1')],
    ['a method that is a number', call('"id":1,"method":5'), error(-32600, 'invalid request', '1')],
    ['an empty method', call('"id":1,"method":""'), error(-32600, 'invalid request', '1')],
    [
      'version 1.0',
      '{"jsonrpc":"1.0","id":1,"method":"eth_chainId"}',
      error(-32600, 'invalid request', '1'),
    ],
    ['no version', '{"id":1,"method":"eth_chainId"}', error(-32600, 'invalid request', '1')],
    ['a notification', call('"method":"eth_chainId"'), undefined],
    [
      'an unknown method',
      call('"id":1,"method":"eth_foo"'),
      error(-32601, notFound('eth_foo'), '1'),
    ],
    [
      'a long name',
      call(`"id":1,"method":"${'x'.repeat(128)}"`),
      error(-32601, notFound('x'.repeat(64)), '1'),
    ],
    [
      'a name of 1 MB',
      call(`"id":1,"method":"${'x'.repeat(1e6)}"`),
      error(-32700, 'parse error: method longer than 128 characters'),
    ],
    [
      'a name with a newline',
      call('"id":1,"method":"a\\nb"'),
      error(-32601, notFound('a\nb'), '1'),
    ],
    [
      'a name of the prototype',
      call('"id":1,"method":"constructor"'),
      error(-32601, notFound('constructor'), '1'),
    ],
    [
      '__proto__ as a method',
      call('"id":1,"method":"__proto__"'),
      error(-32601, notFound('__proto__'), '1'),
    ],
    [
      '__proto__ as a key',
      call('"id":1,"method":"eth_chainId","__proto__":{"params":[1]}'),
      ok('1'),
    ],
    [
      'another case',
      call('"id":1,"method":"eth_chainid"'),
      error(-32601, notFound('eth_chainid'), '1'),
    ],
    [
      'too many arguments',
      call('"id":1,"method":"eth_chainId","params":[1]'),
      error(-32602, 'too many arguments, want at most 0', '1'),
    ],
    ['brackets in strings', call('"id":"[{","method":"eth_chainId"'), ok('"[{"')],
  ]
  test.each(cases)('%s', async (_name, body, answer) => {
    expect((await rpc.send(body)).text).toBe(answer)
    expect(rpc.bugs).toEqual([])
  })

  const ids: [sent: string, answered?: string][] = [
    ['12345678901234567890'],
    ['9007199254740993'],
    ['1.0'],
    ['1.5'],
    ['-1'],
    ['1e400'],
    ['null'],
    ['true'],
    ['"abc"'],
    ['""'],
    ['"a\\"b\\\\"'],
    ['"\\ud83d\\ude00"'],
    ['"é"', '"\\u00e9"'],
    ['"\\ud800"'],
  ]
  test.each(ids)('id %s comes back', async (sent, answered = sent) => {
    expect((await rpc.send(call(`"id":${sent},"method":"eth_chainId"`))).text).toBe(ok(answered))
    expect((await rpc.send(call(`"method":"eth_chainId", "id" :\n${sent}`))).text).toBe(
      ok(answered),
    )
  })
  test.each(['{}', '[1]', '[]'])('id %s is refused', async (id) => {
    const { text } = await rpc.send(call(`"id":${id},"method":"eth_chainId"`))
    expect(text).toBe(error(-32600, 'invalid request'))
  })
  test('an escaped key is seen by the parser alone', async () => {
    const body = call('"id":12345678901234567890,"\\u0069d":7,"method":"eth_chainId"')
    expect((await rpc.send(body)).text).toBe(ok('7'))
  })
  test('an answer is ASCII', async () => {
    const { text } = await rpc.send(call('"id":"日本","method":"метод"'))
    expect(text).toMatch(/^[\x20-\x7e]*$/)
    expect((JSON.parse(text!) as Reply).id).toBe('日本')
  })
  test('any text gets an answer or none, never a throw', async () => {
    await fc.assert(
      fc.asyncProperty(fc.oneof(fc.string({ unit: 'binary' }), fc.json()), async (body) => {
        const { text } = await rpc.send(body)
        if (text !== undefined) JSON.parse(text)
        expect(rpc.bugs).toEqual([])
      }),
    )
  })
})

describe('batches', () => {
  const batch = (...items: string[]) => `[${items.join(',')}]`
  const many = (count: number) =>
    batch(...Array.from({ length: count }, (_, id) => call(`"id":${id},"method":"eth_chainId"`)))
  const rpc = testRpc()
  const cases: [name: string, body: string, answer: string | undefined][] = [
    ['an empty one', '[]', error(-32600, 'empty batch')],
    ['of one', batch(chainId), `[${ok('1')}]`],
    [
      'of no requests',
      '[1,[]]',
      `[${error(-32600, 'invalid request')},${error(-32600, 'invalid request')}]`,
    ],
    ['of an empty batch', '[[]]', `[${error(-32600, 'invalid request')}]`],
    ['of notifications', batch(call('"method":"eth_chainId"')), undefined],
    ['a notification and a call', batch(call('"method":"eth_chainId"'), chainId), `[${ok('1')}]`],
    ['equal ids', batch(chainId, chainId), `[${ok('1')},${ok('1')}]`],
    [
      'ids of every kind',
      batch(call('"id":1.0,"method":"eth_chainId"'), call('"id":"x","method":"eth_chainId"')),
      `[${ok('1.0')},${ok('"x"')}]`,
    ],
  ]
  test.each(cases)('%s', async (_name, body, answer) => {
    expect((await rpc.send(body)).text).toBe(answer)
  })
  test('as many as may be', async () => {
    const { text } = await rpc.send(many(100))
    expect((JSON.parse(text!) as Reply[]).every(({ result }) => result === '0xc4')).toBe(true)
  })
  test('too many: an error for each', async () => {
    const { text } = await rpc.send(many(101))
    const replies = JSON.parse(text!) as Reply[]
    expect(replies.map(({ id }) => id)).toEqual(Array.from({ length: 101 }, (_, id) => id))
    expect(replies.every((reply) => reply.error?.code === -32600)).toBe(true)
  })
  test('far too many: one error, and the body is not parsed', async () => {
    const { text } = await rpc.send(`[${'1,'.repeat(280_000)}`)
    expect(JSON.parse(text!)).toMatchObject({ id: null, error: { code: -32600 } })
  })
  test('answers beyond the cap are refused one by one', async () => {
    const small = testRpc({ limits: { batchResponseBytes: 100 } })
    const replies = JSON.parse(
      (await small.send(batch(chainId, chainId, chainId))).text!,
    ) as Reply[]
    expect(replies.map((reply) => reply.error?.code)).toEqual([undefined, undefined, -32003])
  })
  test('one view from the first item to the last', async () => {
    const memory = memoryChain()
    const slow = frontMethod({
      name: 'test_publish',
      summary: 'A block comes while the batch runs.',
      params: [],
      result: quantityResult('n'),
      async handler() {
        memory.publish({ canonical: memory.make(memory.heads.canonical) })
        await Promise.resolve()
        return 0
      },
    })
    const moving = testRpc({ memory, extra: only(slow) })
    const number = call('"id":1,"method":"eth_blockNumber"')
    const body = batch(number, call('"id":2,"method":"test_publish"'), number)
    const replies = JSON.parse((await moving.send(body)).text!) as Reply[]
    expect(replies.map(({ result }) => result)).toEqual(['0x0', '0x0', '0x0'])
    expect(memory.leaks()).toBe(0)
    expect((await moving.ask('eth_blockNumber')).result).toBe('0x1')
  })
  test('a read waits for the send before it', async () => {
    const order: string[] = []
    const effect = frontMethod({
      name: 'test_effect',
      summary: 'Takes its time.',
      hasEffect: true,
      params: [],
      result: quantityResult('n'),
      async handler() {
        await new Promise(setImmediate)
        order.push('effect')
        return 0
      },
    })
    const read = frontMethod({
      name: 'test_read',
      summary: 'Comes after.',
      params: [],
      result: quantityResult('n'),
      handler: () => order.push('read'),
    })
    const two = testRpc({ extra: only(effect, read) })
    await two.send(
      batch(call('"id":1,"method":"test_effect"'), call('"id":2,"method":"test_read"')),
    )
    expect(order).toEqual(['effect', 'read'])
  })
  test('what follows a long change is made after it, and short ones run together', async () => {
    const order: string[] = []
    const effect = frontMethod({
      name: 'test_effect',
      summary: 'Ends after one that came later could.',
      hasEffect: true,
      params: [param('Bytes', bytes)],
      result: quantityResult('n'),
      async handler(_, { length }) {
        order.push(`${length} begins`)
        await new Promise((resolve) => setImmediate(resolve))
        return order.push(`${length} ends`)
      },
    })
    const of = (length: number) =>
      call(`"id":1,"method":"test_effect","params":["0x${'00'.repeat(length)}"]`)
    await testRpc({ extra: only(effect) }).send(batch(of(1), of(2), of(40_000), of(3)))
    const short = ['1 begins', '2 begins', '40000 begins', '1 ends', '2 ends', '40000 ends']
    expect(order).toEqual([...short, '3 begins', '3 ends'])
  })
})

/** Of a scan that looks for something else. */
const WIDE = {
  depth: 64,
  keys: 64,
  hexKeys: 64,
  values: 20_000,
  items: 1_000,
  keyCharacters: 256,
  numberCharacters: 64,
  hexCharacters: 1_000_000,
  textCharacters: 1_000_000,
  idCharacters: 256,
  methodCharacters: 128,
}

describe('hostile bodies', () => {
  const rpc = testRpc()
  const cases: [name: string, body: string][] = [
    ['a million brackets', '['.repeat(1_000_000)],
    [
      'params nested 65 deep',
      call(`"id":1,"method":"eth_chainId","params":${'['.repeat(65)}${']'.repeat(65)}`),
    ],
    ['objects nested 200,000 deep', '{"a":'.repeat(200_000)],
    [
      '300,000 keys that look like integers',
      call(
        `"id":1,"method":"eth_chainId","params":[{${Array.from({ length: 300_000 }, (_, at) => `"${at}":0`).join(',')}}]`,
      ),
    ],
    ['two megabytes of empty lists', `{"params":[${Array(666_000).fill('[]').join(',')}]}`],
    ['two megabytes of numbers', `{"params":[${Array(999_000).fill('1').join(',')}]}`],
    ['a string of a million backslashes', `"${'\\'.repeat(1_000_001)}"`],
  ]
  test.each(cases)('%s: refused at once', async (_name, body) => {
    // The quickest of three: what is dear is so each time, what is held up by another process is not.
    const times: number[] = []
    for (let time = 0; time < 3; time++) {
      const started = performance.now()
      const { text } = await rpc.send(body)
      times.push(performance.now() - started)
      expect((JSON.parse(text!) as Reply).error?.code).toBe(-32700)
    }
    expect(Math.min(...times)).toBeLessThan(200)
  })
  test('64 keys, and thousands that are slots, are taken', () => {
    const limits = { ...WIDE, hexKeys: 10_000 }
    const keys = (count: number, prefix: string) =>
      `{${Array.from({ length: count }, (_, at) => `"${prefix}${at}":0`).join(',')}}`
    expect(scan(keys(64, 'k'), limits).fault).toBeUndefined()
    expect(scan(keys(65, 'k'), limits).fault).toBe('object with more than 64 keys')
    expect(scan(keys(10_000, '0x'), limits).fault).toBeUndefined()
    expect(scan(keys(10_001, '0x'), limits).fault).toBe('object with more than 10000 keys')
  })
  test('so many values, whatever they are', () => {
    const limits = { ...WIDE, values: 10 }
    const fault = (params: string) => scan(`{"params":[${params}]}`, limits).fault
    // Two are around them.
    expect(fault('1,1,1,1,1,1,1,1,1')).toBeUndefined()
    expect(fault('1,1,1,1,1,1,1,1,1,1')).toBe('more than 10 values')
    expect(fault('[[],[]],[{}]')).toBeUndefined()
    expect(fault('[[],[]],[{},[[]]]')).toBe('more than 10 values')
  })
  test('what the scan cuts out is what the parser sees', () => {
    const limits = { ...WIDE, values: 1_000 }
    fc.assert(
      fc.property(fc.array(fc.jsonValue()), fc.double(), (params, id) => {
        const body = JSON.stringify({ id, other: { id: 7, params: [0] }, params })
        const cut = scan(body, limits)
        if (cut.fault !== undefined) return
        expect(JSON.parse(cut.params[0]!)).toEqual(JSON.parse(JSON.stringify(params)))
        expect(Number(cut.ids[0] ?? Number.NaN)).toEqual(
          JSON.parse(JSON.stringify(id)) ?? Number.NaN,
        )
      }),
    )
  })
})
