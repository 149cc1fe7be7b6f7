/** The file of API keys is checked, and it can be read again while the node runs. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { digestOf } from '../../../rpc/core/api-keys.ts'
import { readApiKeys } from '../../../workers/config/api-keys-file.ts'
import { openApiKeys } from '../../../workers/front/api-keys.ts'
import { openRateBuckets } from '../../../workers/front/rate-buckets.ts'

const directory = mkdtempSync(join(tmpdir(), 'flashnode-keys-'))
afterAll(() => rmSync(directory, { recursive: true }))
const path = join(directory, 'keys.json')
const KEY = 'partner-key-0123456789'
const sha256 = Buffer.from(digestOf(KEY)).toString('hex')
const write = (content: unknown) =>
  writeFileSync(path, typeof content === 'string' ? content : JSON.stringify(content))

describe('a file of API keys', () => {
  test('has keys or digests, with or without rates', () => {
    write({
      'partner.1': { key: KEY },
      b: { sha256: '0'.repeat(64), rateLimit: 5 },
      c: { key: `${KEY}c`, rateLimit: 'off' },
    })
    expect(readApiKeys(path)).toEqual({
      entries: [
        { name: 'partner.1', digest: digestOf(KEY), rate: undefined },
        { name: 'b', digest: Buffer.alloc(32), rate: 5 },
        { name: 'c', digest: digestOf(`${KEY}c`), rate: 'off' },
      ],
      problems: [],
    })
  })

  const cases: [problem: string, content: unknown][] = [
    ['not valid JSON', `{"a": "${KEY}`],
    ['expected an object', [KEY]],
    ['"a": expected an object', { a: KEY }],
    ['"a b": expected a name', { 'a b': { key: KEY } }],
    ['"a": expected either key or sha256', { a: {} }],
    ['"a": expected either key or sha256', { a: { key: KEY, sha256 } }],
    ['"a": key: expected 16 to 128', { a: { key: 'short' } }],
    ['"a": sha256: expected 64 hex digits', { a: { sha256: KEY } }],
    ['"a": rateLimit: expected an integer', { a: { key: KEY, rateLimit: 0 } }],
    ['"a": rateLimit: expected an integer', { a: { key: KEY, rateLimit: '5' } }],
    ['expected key or sha256, and rateLimit, not limit', { a: { key: KEY, limit: 5 } }],
    ['two names have the same key', { a: { key: KEY }, b: { sha256 } }],
  ]
  test.each(cases)('is refused: %s', (problem, content) => {
    write(content)
    const { problems } = readApiKeys(path)
    expect(problems.join()).toContain(problem)
    expect(problems.join()).not.toContain(KEY)
  })
  test('is reported if it does not exist', () => {
    expect(readApiKeys(join(directory, 'none')).problems).toEqual([
      expect.stringContaining('no such file'),
    ])
  })
})

test('keys are reloaded, and stay unchanged when the file is broken', () => {
  const reports: unknown[] = []
  const report = (...all: unknown[]) => void reports.push(all)
  write({ partner: { key: KEY, rateLimit: 5 } })
  const { keys, reload } = openApiKeys(path, report)
  write({ partner: { key: `${KEY}2`, rateLimit: 7 }, more: { key: `${KEY}3` } })
  expect(keys.nameOf(KEY)).toBe('partner')
  expect(reload()).toEqual({ count: 2, gone: new Set(['partner']) })
  expect([keys.nameOf(KEY), keys.nameOf(`${KEY}2`)]).toEqual([undefined, 'partner'])
  write('{')
  expect(reload()).toBeUndefined()
  expect(reports).toEqual([['keys_not_read', { reason: `keys ${path}: not valid JSON` }]])
  expect([keys.nameOf(`${KEY}2`), keys.rateOf('partner')]).toEqual(['partner', 7])
  expect(() => openApiKeys(path, report)).toThrow('not valid JSON')
})

test('a key has its own points at any address, and an address those of its range', async () => {
  write({ fast: { key: KEY, rateLimit: 30 }, plain: { key: `${KEY}2` } })
  const { keys } = openApiKeys(path, () => {})
  const { charging } = openRateBuckets({
    config: { rateLimit: 10, rateLimitOf: ['10.0.0.0/8=20'], limits: { limiterKeys: 10 } },
    keys,
    metrics: { refused() {}, stalled() {} },
    report() {},
    now: () => 0,
  })
  const allowed = async (address: string) => {
    const all = await Promise.all(Array.from({ length: 50 }, () => charging.charge(address, 1)))
    return all.filter(({ isAllowed }) => isAllowed).length
  }
  expect(await allowed('key fast')).toBe(30)
  expect(await allowed('key plain')).toBe(10)
  expect(await allowed('10.0.0.1')).toBe(20)
  expect(await allowed('11.0.0.1')).toBe(10)
  expect(await charging.charge('key fast', 1)).toMatchObject({ isAllowed: false, bucket: 'key' })
})
