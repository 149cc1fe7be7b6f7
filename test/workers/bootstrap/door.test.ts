/** Who may copy a node: with its token, and never in the clear over a network that is everybody's. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { bootstrapDoor } from '../../../workers/front/feed-gate.ts'
import { temporaryDirectory } from '../../fixtures/databases.ts'

const TOKEN = 'a'.repeat(32)
const file = join(temporaryDirectory(), 'token')
writeFileSync(file, `${TOKEN}\n`)
const door = bootstrapDoor(file, async () => ({ status: 200, bytes: new Uint8Array(1) }))!

const NEAR = { address: '10.0.0.7', isForwarded: false, isSecure: false, token: TOKEN }
test.each([
  ['a private address with the token', NEAR, 200],
  ['no token', { ...NEAR, token: undefined }, 401],
  ['another token', { ...NEAR, token: 'b'.repeat(32) }, 401],
  ['a public address', { ...NEAR, address: '192.0.2.7' }, 403],
  ['a public address over TLS', { ...NEAR, address: '192.0.2.7', isSecure: true }, 200],
  ['somebody whom a stranger speaks for', { ...NEAR, isForwarded: true }, 403],
  [
    'a public address over TLS without a token',
    { ...NEAR, address: '192.0.2.7', isSecure: true, token: undefined },
    401,
  ],
] as const)('%s', async (_, visitor, status) => {
  expect((await door('/bootstrap?part=about', visitor)).status).toBe(status)
})

test('without a token nobody does', () => {
  expect(bootstrapDoor(undefined, async () => ({ status: 200 }))).toBeUndefined()
})
