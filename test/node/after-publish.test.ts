/** After a publish: who waits for it is told first, then replicas, then the txpool reads what was included. */
import { describe, expect, test } from 'vitest'
import type { Bytes } from '../../engine/primitives/bytes.ts'
import type { Showing } from '../../engine/views/showing.ts'
import { type Concerned, onWriter } from '../../workers/node/on-messages.ts'
import type { FromWriter, Published } from '../../workers/thread/messages.ts'
import { holdBack } from '../../workers/writer/held-back.ts'

const published = (isFollowed: boolean, ...transactions: Bytes[]): Published => ({
  ...{ type: 'published', record: 7, canonical: 1, complete: 1, pending: 2, index: 0 },
  ...{ transactions, publishMs: 1, executeMs: 1, isFollowed },
})
const changes = { type: 'changes', changes: {} } as unknown as FromWriter & { type: 'changes' }
const [a, b] = [Uint8Array.of(1), Uint8Array.of(2)]

function opened() {
  const done: string[] = []
  const parts = {
    health: { published: () => false },
    metrics: { published() {} },
    feed: { changed: () => done.push('replicas') },
    transactions: {
      published(shown: readonly Bytes[]) {
        done.push(`txpool ${shown.map(([byte]) => byte).join(' ')}`)
        return [5]
      },
    },
    threads: { keeper: { post: ({ type }: { type: string }) => done.push(type) } },
    later: { front: { published: () => done.push('clients'), hear() {} } },
    shown: { hashes: [], isFollowed: false },
  } as unknown as Concerned
  return {
    done,
    tell: (message: Published | typeof changes) => onWriter(message, parts, {} as never),
  }
}
const turn = () => new Promise((resolve) => setImmediate(resolve))

describe('after a publish', () => {
  test('whose changes follow, the txpool waits for them', async () => {
    const { done, tell } = opened()
    tell(published(true, a))
    await turn()
    tell(published(true, b))
    expect(done).toEqual(['clients', 'clients'])
    tell(changes)
    await turn()
    expect(done).toEqual(['clients', 'clients', 'replicas', 'txpool 1 2', 'taken'])
  })

  test('that changed nothing for replicas, it does not', async () => {
    const { done, tell } = opened()
    tell(published(false, a))
    expect(done).toEqual(['clients'])
    await turn()
    expect(done).toEqual(['clients', 'txpool 1', 'taken'])
  })

  test('that is not shown yet it has nothing to read', async () => {
    const { done, tell } = opened()
    tell(changes)
    await turn()
    expect(done).toEqual(['replicas'])
  })

  test('of a node that stays behind its changes were told long before', () => {
    const told: object[] = []
    const showing = { shown: 7, dueAtMs: undefined } as Showing
    holdBack(showing, (message) => told.push(message)).tell(published(true))
    expect(told).toContainEqual(expect.objectContaining({ type: 'published', isFollowed: false }))
  })
})
