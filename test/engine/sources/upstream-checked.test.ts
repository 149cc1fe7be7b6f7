/** An upstream is asked nothing before it has shown its chain, and nothing after it has shown another one. */
import { describe, expect, test } from 'vitest'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import { foreignChain, foreignId } from '../../../engine/sources/upstream/check.ts'
import { checkedUpstream } from '../../../engine/sources/upstream/checked.ts'
import { type FailureKind, UpstreamError } from '../../../engine/sources/upstream/error.ts'
import { fakeUpstream } from '../../fixtures/upstream.ts'

const CHAIN = {
  ...{ chainId: 196n, name: 'ours' },
  ...{ genesisHash: new Uint8Array(32).fill(0xab), genesisNumber: 0n },
}
const OURS = { hash: bytesToHex(CHAIN.genesisHash) }

/** A node whose chain and failure can be changed while it runs. */
function open() {
  const node = { id: '0xc4', failure: undefined as FailureKind | undefined }
  const fake = fakeUpstream((method) => {
    if (node.failure !== undefined) throw new UpstreamError(node.failure, `http://fake ${method}`)
    return method === 'eth_chainId' ? node.id : OURS
  })
  const upstream = checkedUpstream(fake, (options) => foreignChain(fake, CHAIN, options))
  const asked = () => fake.calls.splice(0).map(({ method }) => method)
  const call = () => upstream.call('eth_call', []).catch((error: UpstreamError) => error.kind)
  return { node, fake, upstream, asked, call }
}
const LOOK = ['eth_chainId', 'eth_getBlockByNumber']

test('the chain is looked at before the first call, and not before the next', async () => {
  const { asked, call } = open()
  await call()
  expect(asked()).toEqual([...LOOK, 'eth_call'])
  await call()
  expect(asked()).toEqual(['eth_call'])
})

test('another chain is never asked, whether by a call, a batch or a subscription', async () => {
  const { node, upstream, asked, call } = open()
  node.id = '0x5'
  expect(await call()).toBe('foreign')
  expect(asked()).toEqual(LOOK)
  node.id = '0xc4'
  expect(await call()).toBe('foreign')
  const batch = upstream.batch([{ method: 'eth_call', params: [] }])
  await expect(batch).rejects.toThrow('http://fake has chain 5, not 196 (ours)')
  expect(asked()).toEqual([])
})

describe('one that comes back shows its chain again', () => {
  test.each(['unreachable', 'broken', 'silent'] as const)('after %s', async (kind) => {
    const { node, asked, call } = open()
    await call()
    node.failure = kind
    expect(await call()).toBe(kind)
    node.failure = undefined
    node.id = '0x5'
    asked()
    expect(await call()).toBe('foreign')
    expect(asked()).toEqual(LOOK)
  })
  test('after its connection has ended', async () => {
    const { node, fake, asked, call } = open()
    await call()
    asked()
    node.id = '0x5'
    Object.assign(fake, { lostConnections: 1 })
    expect(await call()).toBe('foreign')
    expect(asked()).toEqual(LOOK)
  })
  test.each(['refused', 'limited', 'large'] as const)('not after %s', async (kind) => {
    const { node, asked, call } = open()
    await call()
    node.failure = kind
    await call()
    node.failure = undefined
    asked()
    await call()
    expect(asked()).toEqual(['eth_call'])
  })
})

test('a call that the look prevents has not left', async () => {
  const { node, asked, call } = open()
  node.failure = 'silent'
  expect(await call()).toBe('unreachable')
  expect(asked()).toEqual(LOOK)
  node.failure = 'limited'
  expect(await call()).toBe('limited')
})

test('a sequencer shows its chain id, where it gives any', async () => {
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
