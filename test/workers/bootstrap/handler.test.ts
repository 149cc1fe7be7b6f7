/** A client may copy a node only with its token, and never unencrypted over a public network. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { bootstrapHandler } from '../../../workers/front/feed-access.ts'
import { temporaryDirectory } from '../../fixtures/databases.ts'

const TOKEN = 'a'.repeat(32)
const file = join(temporaryDirectory(), 'token')
writeFileSync(file, `${TOKEN}\n`)
const handler = bootstrapHandler(file, async () => ({ status: 200, bytes: new Uint8Array(1) }))!

const PRIVATE = { address: '10.0.0.7', isForwarded: false, isSecure: false, token: TOKEN }
test.each([
  ['a private address with the token', PRIVATE, 200],
  ['no token', { ...PRIVATE, token: undefined }, 401],
  ['another token', { ...PRIVATE, token: 'b'.repeat(32) }, 401],
  ['a public address', { ...PRIVATE, address: '192.0.2.7' }, 403],
  ['a public address over TLS', { ...PRIVATE, address: '192.0.2.7', isSecure: true }, 200],
  ['an untrusted proxy at a private address', { ...PRIVATE, isForwarded: true }, 403],
  [
    'a public address over TLS without a token',
    { ...PRIVATE, address: '192.0.2.7', isSecure: true, token: undefined },
    401,
  ],
] as const)('a request gets the expected status: %s', async (_, visitor, status) => {
  expect((await handler('/bootstrap?part=about', visitor)).status).toBe(status)
})

test('a node without a token serves no copies', () => {
  expect(bootstrapHandler(undefined, async () => ({ status: 200 }))).toBeUndefined()
})
