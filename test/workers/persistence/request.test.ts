/**
 * Requests to the persistence thread arrive unchanged, and the sender retains a diff that is not
 * encoded.
 */
import { MessageChannel, receiveMessageOnPort } from 'node:worker_threads'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { encodeDiff } from '../../../engine/state/diff-codec.ts'
import type { PersistenceRequest } from '../../../engine/storage/types.ts'
import {
  type PackedRequest,
  postRequest,
  unpackRequest,
} from '../../../workers/persistence/request.ts'
import { stateDiff } from '../../fixtures/state-arbitrary.ts'

const hash = new Uint8Array(32).fill(7)

function sent(request: PersistenceRequest): PersistenceRequest {
  const { port1, port2 } = new MessageChannel()
  try {
    postRequest(port1, request)
    const received = receiveMessageOnPort(port2) as { readonly message: PackedRequest }
    return unpackRequest(received.message)
  } finally {
    port1.close()
  }
}

test('a diff arrives unchanged, and the sender retains it unless it is encoded', () => {
  fc.assert(
    fc.property(stateDiff, (diff) => {
      const bytes = encodeDiff(diff)
      const advance: PersistenceRequest = { type: 'advance', id: 3, parentId: 2, diff }
      const preview: PersistenceRequest = {
        type: 'preview',
        request: 9,
        parentStateRoot: hash,
        diff,
      }
      const block = {
        id: 3,
        parentId: 2,
        number: 8,
        hash,
        parentHash: hash,
        header: hash,
        transactions: [],
        receipts: [hash],
        diff: encodeDiff(diff),
        partialHeaders: [],
      }
      expect(sent(advance)).toEqual(advance)
      expect(sent(preview)).toEqual(preview)
      const append: PersistenceRequest = { type: 'append', block }
      expect(sent(append)).toEqual({ type: 'append', block: { ...block, diff: bytes } })
      expect(block.diff).toHaveLength(0)
      expect(encodeDiff(diff)).toEqual(bytes)
    }),
    { numRuns: 40 },
  )
})

test.each<PersistenceRequest>([
  { type: 'root', id: 3 },
  { type: 'marks', safe: 1, finalized: 2 },
  { type: 'forget', id: 3 },
  { type: 'adopt', id: 3, parentId: 2, hash },
])('a request of type $type arrives unchanged', (request) => {
  expect(sent(request)).toEqual(request)
})
