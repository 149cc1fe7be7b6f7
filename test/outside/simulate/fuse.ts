/**
 * A process dies in the middle of its work: before a commit, or before a step into the shared
 * views.
 */
import type { Publisher } from '../../../engine/views/types.ts'

export class Died extends Error {
  override name = 'Died'
}

/** Burns down with each step; undefined: the process does not die. */
export class Fuse {
  left: number | undefined
  readonly burn = (): void => {
    if (this.left === undefined) return
    if (this.left-- > 0) return
    this.left = undefined
    throw new Died('killed')
  }
}

export function fusedPublisher(publisher: Publisher, fuse: Fuse): Publisher {
  const { burn } = fuse
  return {
    get base() {
      return publisher.base
    },
    visibility: publisher.visibility,
    stored: (block) => publisher.stored(block),
    start: (parent, payloadId) => publisher.start(parent, payloadId),
    add(block, increment) {
      burn()
      return publisher.add(block, increment)
    },
    finish(block, header, hash) {
      burn()
      return publisher.finish(block, header, hash)
    },
    settle(block, header) {
      burn()
      return publisher.settle(block, header)
    },
    drop: (block) => publisher.drop(block),
    publish(heads) {
      burn()
      return publisher.publish(heads)
    },
    submitForPersistence: (block) => publisher.submitForPersistence(block),
    onResponse: (block) => publisher.onResponse(block),
    persisted: (block) => publisher.persisted(block),
    unwound: (to) => publisher.unwound(to),
    stats: () => publisher.stats(),
  }
}
