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

describe('a JSON-RPC request', () => {
  const rpc = testRpc()
  const notFound = (name: string) => `the method ${name} does not exist/is not available`
  const cases: [name: string, body: string, response: string | undefined][] = [
    ['a call', chainId, ok('1')],
    ['white space around a call', `\n  ${chainId}\t`, ok('1')],
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
    [
      'duplicate keys, of which the last counts',
      call('"id":1,"id":2,"method":"eth_chainId"'),
      ok('2'),
    ],
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
      'a long method name',
      call(`"id":1,"method":"${'x'.repeat(128)}"`),
      error(-32601, notFound('x'.repeat(64)), '1'),
    ],
    [
      'a method name of 1 MB',
      call(`"id":1,"method":"${'x'.repeat(1e6)}"`),
      error(-32700, 'parse error: method longer than 128 characters'),
    ],
    [
      'a method name with a newline',
      call('"id":1,"method":"a\\nb"'),
      error(-32601, notFound('a\nb'), '1'),
    ],
    [
      'a method name from the object prototype',
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
      'a method name in another case',
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
  test.each(cases)('gets the expected response: %s', async (_name, body, response) => {
    expect((await rpc.send(body)).text).toBe(response)
    expect(rpc.bugs).toEqual([])
  })

  const ids: [sent: string, response?: string][] = [
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
  test.each(ids)('with id %s gets the same id back', async (sent, response = sent) => {
    expect((await rpc.send(call(`"id":${sent},"method":"eth_chainId"`))).text).toBe(ok(response))
    expect((await rpc.send(call(`"method":"eth_chainId", "id" :\n${sent}`))).text).toBe(
      ok(response),
    )
  })
  test.each(['{}', '[1]', '[]'])('with id %s is refused', async (id) => {
    const { text } = await rpc.send(call(`"id":${id},"method":"eth_chainId"`))
    expect(text).toBe(error(-32600, 'invalid request'))
  })
  test('with an escaped id key gets the id that the parser reads', async () => {
    const body = call('"id":12345678901234567890,"\\u0069d":7,"method":"eth_chainId"')
    expect((await rpc.send(body)).text).toBe(ok('7'))
  })
  test('gets an ASCII response', async () => {
    const { text } = await rpc.send(call('"id":"日本","method":"метод"'))
    expect(text).toMatch(/^[\x20-\x7e]*$/)
    expect((JSON.parse(text!) as Reply).id).toBe('日本')
  })
  test('gets a response or none for any text, and never throws', async () => {
    await fc.assert(
      fc.asyncProperty(fc.oneof(fc.string({ unit: 'binary' }), fc.json()), async (body) => {
        const { text } = await rpc.send(body)
        if (text !== undefined) JSON.parse(text)
        expect(rpc.bugs).toEqual([])
      }),
    )
  })
})

describe('a batch', () => {
  const batch = (...items: string[]) => `[${items.join(',')}]`
  const many = (count: number) =>
    batch(...Array.from({ length: count }, (_, id) => call(`"id":${id},"method":"eth_chainId"`)))
  const rpc = testRpc()
  const cases: [name: string, body: string, response: string | undefined][] = [
    ['an empty batch', '[]', error(-32600, 'empty batch')],
    ['a batch with one call', batch(chainId), `[${ok('1')}]`],
    [
      'items that are not requests',
      '[1,[]]',
      `[${error(-32600, 'invalid request')},${error(-32600, 'invalid request')}]`,
    ],
    ['an empty batch as an item', '[[]]', `[${error(-32600, 'invalid request')}]`],
    ['a batch of notifications', batch(call('"method":"eth_chainId"')), undefined],
    ['a notification and a call', batch(call('"method":"eth_chainId"'), chainId), `[${ok('1')}]`],
    ['two equal ids', batch(chainId, chainId), `[${ok('1')},${ok('1')}]`],
    [
      'ids of every kind',
      batch(call('"id":1.0,"method":"eth_chainId"'), call('"id":"x","method":"eth_chainId"')),
      `[${ok('1.0')},${ok('"x"')}]`,
    ],
  ]
  test.each(cases)('gets the expected responses: %s', async (_name, body, response) => {
    expect((await rpc.send(body)).text).toBe(response)
  })
  test('may have the maximum number of calls', async () => {
    const { text } = await rpc.send(many(100))
    expect((JSON.parse(text!) as Reply[]).every(({ result }) => result === '0xc4')).toBe(true)
  })
  test('above the maximum gets an error for each call', async () => {
    const { text } = await rpc.send(many(101))
    const replies = JSON.parse(text!) as Reply[]
    expect(replies.map(({ id }) => id)).toEqual(Array.from({ length: 101 }, (_, id) => id))
    expect(replies.every((reply) => reply.error?.code === -32600)).toBe(true)
  })
  test('far above the maximum gets one error, and its body is not parsed', async () => {
    const { text } = await rpc.send(`[${'1,'.repeat(280_000)}`)
    expect(JSON.parse(text!)).toMatchObject({ id: null, error: { code: -32600 } })
  })
  test('above the response size is refused item by item', async () => {
    const small = testRpc({ limits: { batchResponseBytes: 100 } })
    const replies = JSON.parse(
      (await small.send(batch(chainId, chainId, chainId))).text!,
    ) as Reply[]
    expect(replies.map((reply) => reply.error?.code)).toEqual([undefined, undefined, -32003])
  })
  test('reads one view from the first item to the last', async () => {
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
    expect((await moving.request('eth_blockNumber')).result).toBe('0x1')
  })
  test('runs a read after the send before it', async () => {
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
  test('runs short changes together, and those after a long one in sequence', async () => {
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

/** The limits are wide for scans that test something else. */
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

describe('the limits of a body', () => {
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
  test.each(cases)('refuse it at once: %s', async (_name, body) => {
    // The minimum of three counts, because an expensive body is slow each time, but other processes
    // are not.
    const times: number[] = []
    for (let time = 0; time < 3; time++) {
      const started = performance.now()
      const { text } = await rpc.send(body)
      times.push(performance.now() - started)
      expect((JSON.parse(text!) as Reply).error?.code).toBe(-32700)
    }
    expect(Math.min(...times)).toBeLessThan(200)
  })
  test('allow 64 keys in an object, and thousands that are slots', () => {
    const limits = { ...WIDE, hexKeys: 10_000 }
    const keys = (count: number, prefix: string) =>
      `{${Array.from({ length: count }, (_, at) => `"${prefix}${at}":0`).join(',')}}`
    expect(scan(keys(64, 'k'), limits).fault).toBeUndefined()
    expect(scan(keys(65, 'k'), limits).fault).toBe('object with more than 64 keys')
    expect(scan(keys(10_000, '0x'), limits).fault).toBeUndefined()
    expect(scan(keys(10_001, '0x'), limits).fault).toBe('object with more than 10000 keys')
  })
  test('allow a maximum number of values of any type', () => {
    const limits = { ...WIDE, values: 10 }
    const fault = (params: string) => scan(`{"params":[${params}]}`, limits).fault
    // Two values enclose these.
    expect(fault('1,1,1,1,1,1,1,1,1')).toBeUndefined()
    expect(fault('1,1,1,1,1,1,1,1,1,1')).toBe('more than 10 values')
    expect(fault('[[],[]],[{}]')).toBeUndefined()
    expect(fault('[[],[]],[{},[[]]]')).toBe('more than 10 values')
  })
  test('use a scan that finds the same parts as the parser', () => {
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
