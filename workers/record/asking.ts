/** Asks again what clients asked of the node that was recorded, at the record that their answers were read from, and compares. */
import type { Answer, Answerer } from '../../rpc/seam/exchange.ts'
import { UNPAID } from '../../rpc/seam/paid.ts'
import type { AskedLine } from './ahead.ts'
import { isMachines, WHY_APART } from './apart.ts'
import type { Courses } from './courses.ts'
import type { AnswerDigest, Apart, Question, RequestLine, Shown } from './lines.ts'
import { digestsOf, requestOf } from './questions.ts'

/** Where a replay stands: the newest record, and what it shows where that is known. */
export type AskedAt = { readonly record: number; readonly shown: Shown | undefined }

export interface Asking {
  /** Resolves when all of them are answered. */
  ask(lines: readonly AskedLine[], at: AskedAt): Promise<void>
  readonly counts: Counts
}
export type Counts = {
  readonly asked: number
  readonly same: number
  readonly different: number
  /** By why. */
  readonly notAsked: Readonly<Record<string, number>>
  /** Of the record, because of its bounds. */
  readonly leftOut: number
  /** The first ones. */
  readonly differences: readonly Difference[]
}
export type Difference = {
  /** Of a batch, of the first item that differs; '' where it is none. */
  readonly method: string
  readonly endpoint: string
  readonly record: number
  /** `number.index` of the pending block there. */
  readonly place: string | undefined
  /** Their beginnings, where they are not the same. */
  readonly body: string
  readonly was: string
  readonly is: string
}

const MOST_DIFFERENCES = 20
const BODY_CHARACTERS = 512
/** Questions that run out of time are asked once more, and then no more. */
const TRIES = 3

/** @param courses of the node that `answer` is of: here the txpool may have what it had not, and the other way round */
export function createAsking(
  answer: Answerer,
  { atOnce, courses }: { readonly atOnce: number; readonly courses: Courses },
): Asking {
  const counts = { asked: 0, same: 0, different: 0, leftOut: 0 }
  const notAsked: Record<string, number> = {}
  const differences: Difference[] = []
  const leave = (why: string) => {
    notAsked[why] = (notAsked[why] ?? 0) + 1
  }

  async function askOne(line: RequestLine, at: AskedAt): Promise<void> {
    const { asked, apart, record } = line
    if (asked === undefined) return leave(WHY_APART[apart ?? 'views'])
    if (record !== at.record) return leave(record < at.record ? BETWEEN : BEYOND)
    const { answered, of } = await askWithin(() => askAgain(answer, line, asked), courses)
    if (of !== undefined) return leave(of === 'machine' ? TOO_SLOW : WHY_APART[of])
    counts.asked++
    const found = digestsOf(answered)
    const other = found.findIndex((one, item) => !isSame(one, asked.answers[item]))
    if (other < 0 && found.length === asked.answers.length) {
      counts.same++
      return
    }
    counts.different++
    if (differences.length < MOST_DIFFERENCES)
      differences.push(differenceOf(line, asked, { found, item: Math.max(0, other), at }))
  }
  return {
    async ask(lines, at) {
      const waiting = lines.values()
      const one = async (): Promise<void> => {
        for (const line of waiting)
          if (line.type === 'left') counts.leftOut += line.requests
          else await askOne(line, at)
      }
      await Promise.all(Array.from({ length: atOnce }, one))
    },
    get counts() {
      return { ...counts, notAsked, differences }
    },
  }
}

const BETWEEN = 'read from a view that was replaced within one event'
const BEYOND = 'read from a view that the record does not reach'
const TOO_SLOW = 'this machine was too slow for them'

/** Nobody charges it for what somebody else has asked. */
const PAID = { ...UNPAID, points: Number.MAX_SAFE_INTEGER }
const ADDRESS = 'replay'

type Tried = { readonly answered: Answer; readonly of: Apart | undefined }

/** @returns the answer, and why it says nothing: 'machine' where it was late each time */
async function askWithin(ask: () => Answer | Promise<Answer>, courses: Courses): Promise<Tried> {
  let of: Apart | undefined
  const once = () =>
    courses.run(ask, (answered, course) => {
      of = course.apart ?? (isMachines(answered) ? 'machine' : undefined)
      return answered
    })
  let answered = await once()
  for (let tries = 1; tries < TRIES && of === 'machine'; tries++) answered = await once()
  return { answered, of }
}

function askAgain(
  answer: Answerer,
  { endpoint, isSocket }: RequestLine,
  { body, minFlashblock }: Question,
): Answer | Promise<Answer> {
  const { signal } = new AbortController()
  const notify = isSocket ? () => true : undefined
  const client = { address: ADDRESS, endpoint, notify, minFlashblock, isGone: false, signal }
  return answer(body, client, PAID)
}

const isSame = (a: AnswerDigest, b: AnswerDigest | undefined): boolean =>
  a.hash === b?.hash && a.bytes === b.bytes

function differenceOf(
  { endpoint, record }: RequestLine,
  asked: Question,
  {
    found,
    item,
    at: { shown },
  }: { readonly found: readonly AnswerDigest[]; readonly item: number; readonly at: AskedAt },
): Difference {
  const { body, method } = requestOf(asked.body, item)
  const isKnown = shown !== undefined && shown.record === record
  return {
    ...{ method: method ?? '', endpoint, record },
    place: isKnown ? `${shown.pending}.${shown.index}` : undefined,
    body: body.slice(0, BODY_CHARACTERS),
    was: beginningOf(asked.answers[item]),
    is: beginningOf(found[item]),
  }
}

const beginningOf = (digest: AnswerDigest | undefined): string => {
  if (digest === undefined) return ''
  const { begins, bytes } = digest
  return bytes <= begins.length ? begins : `${begins}… (${bytes} characters)`
}
