/** Query parameters of a reader's URL for /feed. */
import { MAX_INDEX } from '../../engine/flashblocks/codec.ts'

/** The newest message that a reader has. */
export type Since = {
  readonly number: number
  /** undefined means the End. */
  readonly index: number | undefined
  /** undefined means the newest payload of that number. */
  readonly payloadId: string | undefined
}
export type FeedQuery = {
  readonly since: Since | undefined
  readonly isEnriched: boolean
  /** Enriched messages are compressed. */
  readonly isCompressed: boolean
  /** Run of the node that an enriched message has named; undefined accepts any. */
  readonly run: string | undefined
}

const KEYS: readonly string[] = ['since', 'enrich', 'compress', 'run']

/**
 * Reads the query of a URL.
 * @param url URL of the request, with its path
 * @returns the query, or its fault in one line
 */
export function readFeedQuery(url: string | undefined): FeedQuery | { readonly wrong: string } {
  const [, text = ''] = (url ?? '').split('?', 2)
  const query = new URLSearchParams(text)
  for (const key of query.keys()) {
    if (!KEYS.includes(key))
      return { wrong: `unknown key in the query, expected one of ${KEYS.join(', ')}` }
    if (query.getAll(key).length > 1) return { wrong: `${key} is given more than once` }
  }
  const [enrich, compress] = [query.get('enrich'), query.get('compress')]
  const [run, wanted] = [query.get('run'), query.get('since')]
  if (enrich !== null && enrich !== '1') return { wrong: 'enrich: expected 1' }
  const isEnriched = enrich !== null
  if (compress !== null && (!isEnriched || compress !== '1'))
    return { wrong: 'compress: expected 1, and only together with enrich=1' }
  if (run !== null && (!isEnriched || wanted === null))
    return { wrong: 'run: expected only together with enrich=1 and since' }
  if (run !== null && !/^0x[0-9a-f]{16}$/.test(run))
    return { wrong: 'run: expected 0x and 16 hex digits, as in the messages of the feed' }
  const since = wanted === null ? undefined : readSince(wanted)
  if (wanted !== null && since === undefined)
    return { wrong: 'since: expected number:index or number:index:payload_id' }
  return { since, isEnriched, isCompressed: compress !== null, run: run ?? undefined }
}

function readSince(text: string): Since | undefined {
  const found = /^(\d{1,15}):(\d{1,5}|end)(?::(0x[0-9a-f]{16})?)?$/.exec(text)
  if (found === null) return undefined
  const [, number, index, payloadId] = found
  if (index !== 'end' && Number(index) > MAX_INDEX) return undefined
  return {
    number: Number(number),
    index: index === 'end' ? undefined : Number(index),
    payloadId,
  }
}
