/** Requests on their way to the keeper's thread: what arrives is what was sent, and the sender keeps a diff that is not encoded. */
import { MessageChannel, receiveMessageOnPort } from 'node:worker_threads'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { encodeDiff } from '../../../engine/state/diff-codec.ts'
import type { KeeperRequest } from '../../../engine/storage/types.ts'
import { type PackedRequest, postRequest, unpackRequest } from '../../../workers/keeper/request.ts'
import { stateDiff } from '../../fixtures/state-arbitrary.ts'

const hash = new Uint8Array(32).fill(7)

function sent(request: KeeperRequest): KeeperRequest {
  const { port1, port2 } = new MessageChannel()
  try {
    postRequest(port1, request)
    const received = receiveMessageOnPort(port2) as { readonly message: PackedRequest }
    return unpackRequest(received.message)
  } finally {
    port1.close()
  }
}

test('a diff arrives whole, and stays with its sender', () => {
  fc.assert(
    fc.property(stateDiff, (diff) => {
      const bytes = encodeDiff(diff)
      const advance: KeeperRequest = { type: 'advance', id: 3, parentId: 2, diff }
      const preview: KeeperRequest = { type: 'preview', request: 9, parentStateRoot: hash, diff }
      const block = {
        ...{ id: 3, parentId: 2, number: 8, hash, parentHash: hash, header: hash },
        ...{ transactions: [], receipts: [hash], diff: encodeDiff(diff), momentary: [] },
      }
      expect(sent(advance)).toEqual(advance)
      expect(sent(preview)).toEqual(preview)
      const append: KeeperRequest = { type: 'append', block }
      expect(sent(append)).toEqual({ type: 'append', block: { ...block, diff: bytes } })
      expect(block.diff).toHaveLength(0)
      expect(encodeDiff(diff)).toEqual(bytes)
    }),
    { numRuns: 40 },
  )
})

test.each<KeeperRequest>([
  { type: 'root', id: 3 },
  { type: 'marks', safe: 1, finalized: 2 },
  { type: 'forget', id: 3 },
  { type: 'adopt', id: 3, parentId: 2, hash },
])('$type arrives as it is', (request) => {
  expect(sent(request)).toEqual(request)
})
