/**
 * The order after a publish: waiting requests come first, then replicas, then the txpool reads the
 * included transactions.
 */
import { describe, expect, test } from 'vitest'
import type { Bytes } from '../../engine/primitives/bytes.ts'
import type { Visibility } from '../../engine/views/visibility.ts'
import { type Concerned, onWriter } from '../../workers/node/on-messages.ts'
import type { FromWriter, Published } from '../../workers/thread/messages.ts'
import { delayMessages } from '../../workers/writer/delayed-messages.ts'

const published = (isFollowed: boolean, ...transactions: Bytes[]): Published => ({
  type: 'published',
  snapshot: 7,
  canonical: 1,
  complete: 1,
  pending: 2,
  index: 0,
  transactions,
  publishMs: 1,
  executeMs: 1,
  isFollowed,
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
      published(visible: readonly Bytes[]) {
        done.push(`txpool ${visible.map(([byte]) => byte).join(' ')}`)
        return [5]
      },
    },
    threads: { persistence: { post: ({ type }: { type: string }) => done.push(type) } },
    later: { front: { published: () => done.push('clients'), onMessage() {} } },
    visible: { hashes: [], isFollowed: false },
  } as unknown as Concerned
  return {
    done,
    notify: (message: Published | typeof changes) => onWriter(message, parts, {} as never),
  }
}
const turn = () => new Promise((resolve) => setImmediate(resolve))

describe('a publish', () => {
  test('with changes for replicas reaches the txpool after these changes', async () => {
    const { done, notify } = opened()
    notify(published(true, a))
    await turn()
    notify(published(true, b))
    expect(done).toEqual(['clients', 'clients'])
    notify(changes)
    await turn()
    expect(done).toEqual(['clients', 'clients', 'replicas', 'txpool 1 2', 'taken'])
  })

  test('without changes for replicas reaches the txpool in the next turn', async () => {
    const { done, notify } = opened()
    notify(published(false, a))
    expect(done).toEqual(['clients'])
    await turn()
    expect(done).toEqual(['clients', 'txpool 1', 'taken'])
  })

  test('that is not visible yet sends its changes to replicas only', async () => {
    const { done, notify } = opened()
    notify(changes)
    await turn()
    expect(done).toEqual(['replicas'])
  })

  test('that a flashblock lag delays does not wait for its changes', () => {
    const reported: object[] = []
    const visibility = { visible: 7, dueAtMs: undefined } as Visibility
    delayMessages(visibility, (message) => reported.push(message)).notify(published(true))
    expect(reported).toContainEqual(
      expect.objectContaining({ type: 'published', isFollowed: false }),
    )
  })
})
