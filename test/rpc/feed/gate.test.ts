/** Who may read the enriched feed. */
import { describe, expect, test } from 'vitest'
import { createFeedGate } from '../../../rpc/feed/gate.ts'
import { isPrivate } from '../../../rpc/seam/address.ts'

const TOKEN = 'abcdefghijklmnopqrstuv'
const near = { address: '10.0.0.7', isForwarded: false, isSecure: false, token: undefined }
const far = { ...near, address: '203.0.113.9' }

describe('without a token', () => {
  const gate = createFeedGate(undefined)
  test.each([
    ['a private address', near, undefined],
    ['loopback', { ...near, address: '127.0.0.1' }, undefined],
    ['somebody else', far, 403],
    ['somebody else over TLS', { ...far, isSecure: true }, 403],
    ['for whom a stranger speaks', { ...near, isForwarded: true }, 403],
    ['no address', { ...near, address: 'unknown' }, 403],
  ] as const)('%s', (_, visitor, status) => {
    expect(gate(visitor)?.status).toBe(status)
  })
})

describe('with a token', () => {
  const gate = createFeedGate(TOKEN)
  test.each([
    ['a private address, none', near, 401],
    ['another one', { ...near, token: `${TOKEN}x` }, 401],
    ['a private address', { ...near, token: TOKEN }, undefined],
    ['in the clear', { ...far, token: TOKEN }, 403],
    ['over TLS', { ...far, token: TOKEN, isSecure: true }, undefined],
    ['for whom a stranger speaks', { ...near, token: TOKEN, isForwarded: true }, 403],
  ] as const)('%s', (_, visitor, status) => {
    const refused = gate(visitor)
    expect(refused?.status).toBe(status)
    expect(refused?.wrong ?? '').not.toContain(TOKEN)
  })
})

test.each([
  ...['127.0.0.1', '10.1.2.3', '172.31.0.1', '192.168.9.9', '169.254.1.1', '100.64.0.1', '::1'],
  ...['fd00::1', 'fe80::1', '::ffff:10.0.0.1'],
])('%s is private', (address) => expect(isPrivate(address)).toBe(true))
test.each(['8.8.8.8', '172.32.0.1', '100.128.0.1', '2001:db8::1', '::ffff:8.8.8.8', '', 'name'])(
  '%s is not',
  (address) => expect(isPrivate(address)).toBe(false),
)
