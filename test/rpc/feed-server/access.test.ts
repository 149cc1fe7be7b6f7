/** The enriched feed has an access rule. */
import { describe, expect, test } from 'vitest'
import { createFeedAccess } from '../../../rpc/feed-server/access.ts'
import { isPrivate } from '../../../rpc/limiter/address.ts'

const TOKEN = 'abcdefghijklmnopqrstuv'
const privateClient = { address: '10.0.0.7', isForwarded: false, isSecure: false, token: undefined }
const publicClient = { ...privateClient, address: '203.0.113.9' }

describe('the access rule without a token', () => {
  const access = createFeedAccess(undefined)
  test.each([
    ['a private address', privateClient, undefined],
    ['loopback', { ...privateClient, address: '127.0.0.1' }, undefined],
    ['a public address', publicClient, 403],
    ['a public address over TLS', { ...publicClient, isSecure: true }, 403],
    ['an untrusted proxy at a private address', { ...privateClient, isForwarded: true }, 403],
    ['an unknown address', { ...privateClient, address: 'unknown' }, 403],
  ] as const)('gives the expected status: %s', (_, visitor, status) => {
    expect(access(visitor)?.status).toBe(status)
  })
})

describe('the access rule with a token', () => {
  const access = createFeedAccess(TOKEN)
  test.each([
    ['a private address without a token', privateClient, 401],
    ['a wrong token', { ...privateClient, token: `${TOKEN}x` }, 401],
    ['a private address with the token', { ...privateClient, token: TOKEN }, undefined],
    ['a public address in plain text', { ...publicClient, token: TOKEN }, 403],
    ['a public address over TLS', { ...publicClient, token: TOKEN, isSecure: true }, undefined],
    [
      'an untrusted proxy at a private address',
      { ...privateClient, token: TOKEN, isForwarded: true },
      403,
    ],
  ] as const)('gives the expected status: %s', (_, visitor, status) => {
    const refused = access(visitor)
    expect(refused?.status).toBe(status)
    expect(refused?.wrong ?? '').not.toContain(TOKEN)
  })
})

test.each([
  ...['127.0.0.1', '10.1.2.3', '172.31.0.1', '192.168.9.9', '169.254.1.1', '100.64.0.1', '::1'],
  ...['fd00::1', 'fe80::1', '::ffff:10.0.0.1'],
])('the address %s is private', (address) => expect(isPrivate(address)).toBe(true))
test.each(['8.8.8.8', '172.32.0.1', '100.128.0.1', '2001:db8::1', '::ffff:8.8.8.8', '', 'name'])(
  'the address %s is public',
  (address) => expect(isPrivate(address)).toBe(false),
)
