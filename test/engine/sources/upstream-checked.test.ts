/**
 * An upstream gets no other request before it has shown its chain, and none after it has shown
 * another one.
 */
import { describe, expect, test } from 'vitest'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import { foreignChain, foreignId } from '../../../engine/sources/upstream/check.ts'
import { checkedUpstream } from '../../../engine/sources/upstream/checked.ts'
import { type FailureKind, UpstreamError } from '../../../engine/sources/upstream/error.ts'
import { fakeUpstream } from '../../fixtures/upstream.ts'

const CHAIN = {
  chainId: 196n,
  name: 'ours',
  genesisHash: new Uint8Array(32).fill(0xab),
  genesisNumber: 0n,
}
const OURS = { hash: bytesToHex(CHAIN.genesisHash) }

/** Makes a node whose chain and failure can change while it runs. */
function open() {
  const node = { id: '0xc4', failure: undefined as FailureKind | undefined }
  const fake = fakeUpstream((method) => {
    if (node.failure !== undefined) throw new UpstreamError(node.failure, `http://fake ${method}`)
    return method === 'eth_chainId' ? node.id : OURS
  })
  const upstream = checkedUpstream(fake, (options) => foreignChain(fake, CHAIN, options))
  const requested = () => fake.calls.splice(0).map(({ method }) => method)
  const call = () => upstream.call('eth_call', []).catch((error: UpstreamError) => error.kind)
  return { node, fake, upstream, requested, call }
}
const CHECK_CALLS = ['eth_chainId', 'eth_getBlockByNumber']

test('the chain is checked before the first call only', async () => {
  const { requested, call } = open()
  await call()
  expect(requested()).toEqual([...CHECK_CALLS, 'eth_call'])
  await call()
  expect(requested()).toEqual(['eth_call'])
})

test('an upstream of another chain gets no call, batch or subscription', async () => {
  const { node, upstream, requested, call } = open()
  node.id = '0x5'
  expect(await call()).toBe('foreign')
  expect(requested()).toEqual(CHECK_CALLS)
  node.id = '0xc4'
  expect(await call()).toBe('foreign')
  const batch = upstream.batch([{ method: 'eth_call', params: [] }])
  await expect(batch).rejects.toThrow('http://fake has chain 5, not 196 (ours)')
  expect(requested()).toEqual([])
})

describe('an upstream that returns has its chain checked again', () => {
  test.each(['unreachable', 'broken', 'silent'] as const)('after the failure %s', async (kind) => {
    const { node, requested, call } = open()
    await call()
    node.failure = kind
    expect(await call()).toBe(kind)
    node.failure = undefined
    node.id = '0x5'
    requested()
    expect(await call()).toBe('foreign')
    expect(requested()).toEqual(CHECK_CALLS)
  })
  test('after its connection ended', async () => {
    const { node, fake, requested, call } = open()
    await call()
    requested()
    node.id = '0x5'
    Object.assign(fake, { lostConnections: 1 })
    expect(await call()).toBe('foreign')
    expect(requested()).toEqual(CHECK_CALLS)
  })
  test.each(['refused', 'limited', 'large'] as const)('but not after failure %s', async (kind) => {
    const { node, requested, call } = open()
    await call()
    node.failure = kind
    await call()
    node.failure = undefined
    requested()
    await call()
    expect(requested()).toEqual(['eth_call'])
  })
})

test('a call that a failed chain check prevents counts as not sent', async () => {
  const { node, requested, call } = open()
  node.failure = 'silent'
  expect(await call()).toBe('unreachable')
  expect(requested()).toEqual(CHECK_CALLS)
  node.failure = 'limited'
  expect(await call()).toBe('limited')
})

test('a sequencer is refused if it gives another chain id', async () => {
  const ids: [id: string | undefined, outcome: string | undefined][] = [
    ['0xc4', undefined],
    [undefined, undefined],
    [
      '0x5',
      'http://fake has chain 5, not 196 (ours): give another --sequencer, or another --chain',
    ],
  ]
  for (const [id, outcome] of ids)
    expect(
      await foreignId(
        fakeUpstream(() => id),
        CHAIN,
      ),
    ).toBe(outcome)
})
