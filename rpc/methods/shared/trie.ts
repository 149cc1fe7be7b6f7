/** Access to a block's trie, with retries when a persist pass interferes. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Block } from '../../../engine/chain/types.ts'
import { ProofError, ProofRaceError } from '../../../engine/storage/blocks/proof.ts'
import type { TrieAt } from '../../../engine/storage/types.ts'
import { failed, timedOut } from '../../core/errors.ts'
import type { MethodContext } from '../../method/method.ts'

const RETRY_MS = 5

/**
 * Runs `work` on the trie after a canonical block, and again after each interfering persist pass.
 * @throws {RpcError}
 */
export async function withTrie<T>(
  { view, limits, isExpired }: MethodContext,
  block: Block,
  work: (trie: TrieAt) => T | Promise<T>,
): Promise<T> {
  const bounds = { blocks: limits.proofBlocks, bytes: limits.proofBytes }
  for (;;)
    try {
      return await work(view.trieAt(block, bounds))
    } catch (error) {
      if (error instanceof ProofError) throw failed(error.message)
      if (!(error instanceof ProofRaceError)) throw error
      if (isExpired()) throw timedOut()
      await sleep(RETRY_MS)
    }
}
