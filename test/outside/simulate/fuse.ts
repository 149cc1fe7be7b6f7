/** Where a process dies in the middle of its work: before one of its commits, or one of its steps into the shared views. */
import type { Publisher } from '../../../engine/views/types.ts'

export class Died extends Error {
  override name = 'Died'
}

/** Burns down with each step; undefined: nothing happens. */
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
    showing: publisher.showing,
    stored: (block) => publisher.stored(block),
    begin: (parent, payloadId) => publisher.begin(parent, payloadId),
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
    handOver: (block) => publisher.handOver(block),
    answered: (block) => publisher.answered(block),
    folded: (block) => publisher.folded(block),
    unfolded: (to) => publisher.unfolded(to),
    stats: () => publisher.stats(),
  }
}
