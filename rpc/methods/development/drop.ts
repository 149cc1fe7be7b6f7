/** Methods of a development chain that remove a waiting transaction from the txpool. */
import type { Bytes } from '../../../engine/primitives/bytes.ts'
import type { Standing } from '../../../engine/txpool/departed.ts'
import { hash } from '../../json/codecs.ts'
import { hashResult, orNull } from '../../json/results.ts'
import { frontMethod, type Method, param } from '../../method/method.ts'
import { named } from './controls.ts'

/**
 * Creates the methods.
 * @param drop removes a waiting transaction
 */
export const dropMethods = (drop: (hash: Bytes) => void): readonly Method[] =>
  named(['anvil_dropTransaction', 'hardhat_dropTransaction'], (name) =>
    frontMethod({
      name,
      summary:
        'Removes a waiting transaction from the txpool; null if no transaction with this hash waits.',
      hasEffect: true,
      params: [param('Transaction hash', hash)],
      result: orNull(hashResult('Transaction hash')),
      handler({ services }, which) {
        const dropWaiting = (found: Standing | undefined) => {
          if (found?.why !== 'waits') return undefined
          drop(which)
          return which
        }
        const found = services.transactions.standingOf(which)
        return found instanceof Promise ? found.then(dropWaiting) : dropWaiting(found)
      },
    }),
  )
