/** Takes down what clients ask and what they are answered, with the record that the answer was read from. */
import type { Client } from '../../rpc/seam/client.ts'
import type { Answer, Answerer } from '../../rpc/seam/exchange.ts'
import { isMachines } from './apart.ts'
import { type Course, type Courses, createCourses } from './courses.ts'
import type { Apart, RequestBounds, RequestLine } from './lines.ts'
import { createPieces } from './pieces.ts'
import { digestsOf, lookAt, partOf, type Said } from './questions.ts'

export interface RequestTaking extends Courses {
  /** The same answers; those within the bounds are taken down. @param newestRecord of the views */
  answerer(answer: Answerer, newestRecord: () => number): Answerer
  /** What was taken has been told. */
  close(): void
}

/** Answers that take longer are left out: a replay reads so far ahead, and a little more. */
export const LATE_MS = 20_000

export function takeRequests({
  bounds,
  tellLines,
}: {
  readonly bounds: RequestBounds
  readonly tellLines: (lines: Uint8Array<ArrayBuffer>) => void
}): RequestTaking {
  const courses = createCourses()
  const pieces = createPieces(tellLines)
  const budget = createBudget(bounds, (requests) =>
    pieces.add({ type: 'left', wall: Date.now(), requests }),
  )
  return {
    ...courses,
    answerer: (answer, newestRecord) => (body, client, paid) => {
      if (!budget.begin(body.length)) return answer(body, client, paid)
      const startedAt = performance.now()
      const take = (answered: Answer, course: Course): Answer => {
        const ms = performance.now() - startedAt
        if (client.isGone) return answered
        const read = { ms, record: course.record ?? newestRecord(), apart: course.apart }
        const line = ms > LATE_MS ? undefined : lineOf({ body, client, answered }, read)
        if (line !== undefined && budget.end(line)) pieces.add(line)
        else budget.leave()
        return answered
      }
      return courses.run(() => answer(body, client, paid), take)
    },
    close() {
      budget.close()
      pieces.flush()
    },
  }
}

type Answered = { readonly body: string; readonly client: Client; readonly answered: Answer }
type Read = { readonly ms: number; readonly record: number; readonly apart: Apart | undefined }

/** undefined: it is nested so deeply that it cannot be written. */
function lineOf(answered: Answered, read: Read): RequestLine | undefined {
  try {
    return writtenOf(answered, read)
  } catch (error) {
    if (error instanceof RangeError) return undefined
    throw error
  }
}

function writtenOf(
  { client, answered, ...sent }: Answered,
  { ms, record, apart }: Read,
): RequestLine {
  const { methods, body, part, apart: of } = lookAt(sent.body)
  const { endpoint } = client
  const isSocket = client.notify !== undefined
  const rounded = Math.round(ms * 10) / 10
  const line = { type: 'request', wall: Date.now(), ms: rounded, endpoint, isSocket } as const
  const said = part === undefined ? answered : partOf(answered, part)
  const why = apart ?? (said === undefined || body === undefined ? of : machineOf(said))
  // Of what is not asked again nothing is kept: a send may hold what nobody else was to see.
  if (why !== undefined || said === undefined || body === undefined)
    return { ...line, methods, record, apart: why }
  const { minFlashblock } = client
  const asked = { body, minFlashblock, answers: digestsOf(said) }
  return { ...line, methods, record, asked }
}

const machineOf = (said: Said): Apart | undefined => (isMachines(said) ? 'machine' : undefined)

const SECOND_MS = 1_000
/** Of a line, and of each answer in it, beside the body and what the answer begins with. */
const LINE_BYTES = 200
const DIGEST_BYTES = 60

/** Of a second: requests as they come, and bytes of lines as they are made. @param tellLeft once a second at most */
function createBudget(bounds: RequestBounds, tellLeft: (requests: number) => void) {
  let since = Number.NEGATIVE_INFINITY
  let [requests, bytes, left] = [0, 0, 0]
  const tell = () => {
    if (left > 0) tellLeft(left)
    left = 0
  }
  const look = () => {
    const now = performance.now()
    if (now - since < SECOND_MS) return
    since = now
    requests = 0
    bytes = 0
    tell()
  }
  return {
    /** Whether one may be taken down; else it is left out. */
    begin(characters: number): boolean {
      look()
      const isWithin = requests < bounds.perSecond && bytes + characters <= bounds.bytesPerSecond
      if (isWithin) requests++
      else left++
      return isWithin
    },
    end({ asked }: RequestLine): boolean {
      look()
      const begun = asked?.answers.reduce(
        (sum, { begins }) => sum + begins.length + DIGEST_BYTES,
        0,
      )
      const length = (asked?.body.length ?? 0) + (begun ?? 0) + LINE_BYTES
      if (bytes + length > bounds.bytesPerSecond) return false
      bytes += length
      return true
    },
    leave() {
      left++
    },
    close: tell,
  }
}
