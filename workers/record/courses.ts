/**
 * What an answer was made of: the record that it was read from, and whether the txpool or another node had a part in it. A body has a course
 * of its own (AsyncLocalStorage), so that whoever reads a view, asks another node or looks into the txpool for it need not know what for.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import type { Answer } from '../../rpc/seam/exchange.ts'
import type { TransactionService } from '../../rpc/seam/ports.ts'
import type { Provenance } from '../../rpc/seam/provenance.ts'
import type { Apart } from './lines.ts'

export type Course = {
  /** undefined: nobody said so, and it was the newest at the end. */
  record: number | undefined
  apart: Apart | undefined
}
type Answered = Answer | Promise<Answer>

export interface Courses {
  /** For whoever answers. */
  readonly provenance: Provenance
  /** The same; whose answer it decides is noted. */
  transactions(service: TransactionService): TransactionService
  /** @param then is told the course with the answer, at once where that is there at once */
  run(answer: () => Answered, then: (answer: Answer, course: Course) => Answer): Answered
}

export function createCourses(): Courses {
  const courses = new AsyncLocalStorage<Course>()
  const apart = (why: Apart) => {
    const course = courses.getStore()
    if (course !== undefined) course.apart = why
  }
  return {
    provenance: {
      read(record) {
        const course = courses.getStore()
        if (course === undefined) return
        const { record: other } = course
        if (other !== undefined && record !== undefined && record !== other) course.apart = 'views'
        course.record = record ?? other
      },
      elsewhere: () => apart('elsewhere'),
    },
    transactions: (service) => notedTransactions(service, () => apart('txpool')),
    run(answer, then) {
      const course: Course = { record: undefined, apart: undefined }
      const answered = courses.run(course, answer)
      return answered instanceof Promise
        ? answered.then((one) => then(one, course))
        : then(answered, course)
    },
  }
}

/** Whoever looks into an empty txpool learns nothing of it. */
function notedTransactions(service: TransactionService, note: () => void): TransactionService {
  const noted = <T>(value: T, isOfPool: boolean): T => {
    if (isOfPool) note()
    return value
  }
  return {
    ...service,
    get: (hash) => when(service.get(hash), (found) => noted(found, found !== undefined)),
    nextNonce(sender, stateNonce) {
      const nonce = service.nextNonce(sender, stateNonce)
      return noted(nonce, nonce !== stateNonce)
    },
    counts: () =>
      when(service.counts(), (counts) => noted(counts, counts.pending + counts.queued > 0)),
  }
}

const when = <T>(value: T | Promise<T>, then: (value: T) => T): T | Promise<T> =>
  value instanceof Promise ? value.then(then) : then(value)
