import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, expect, test } from 'vitest'
import { openRecord } from '../../../workers/record/reading.ts'
import { type Full, openRecorder } from '../../../workers/record/recorder.ts'
import { RecordError, readSections } from '../../../workers/record/sections.ts'
import { decodeLine, encodeLine } from '../../../workers/record/values.ts'

const folder = mkdtempSync(join(tmpdir(), 'flashnode-record-test-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))
let files = 0
const fresh = () => join(folder, String(files++))
const bytesOf = (text: string) => new TextEncoder().encode(text)

const leaf = fc.oneof(
  fc.uint8Array(),
  fc.bigInt(),
  fc.boolean(),
  fc.constant(null),
  fc.double({ noDefaultInfinity: true, noNaN: true }).filter((n) => !Object.is(n, -0)),
  fc.string(),
  fc.constantFrom('0x', '0xzz', '12n', '-0n', '$', '$0x12', 'n', '0X1'),
)
const value = fc.dictionary(
  fc.string().filter((name) => name !== '__proto__'),
  fc.oneof(leaf, fc.array(leaf), fc.dictionary(fc.constantFrom('a', 'b'), leaf)),
)

test('a line decodes to the value that was encoded', () => {
  fc.assert(
    fc.property(value, (one) => {
      const line = encodeLine(one)
      expect(line).not.toContain('\n')
      expect(decodeLine(line)).toEqual({ ...one })
    }),
  )
})

async function made(lines: readonly string[], maxBytes = 2 ** 20) {
  const path = fresh()
  const full: Full[] = []
  const recorder = await openRecorder({
    path,
    maxBytes,
    maxMs: 60_000,
    onFull: (reason) => full.push(reason),
  })
  for (const line of lines) {
    recorder.add(bytesOf(line))
    // Each line is its own section.
    await expect.poll(() => recorder.bytes > 0 || full.length > 0).toBe(true)
  }
  return { path, full, recorded: await recorder.close() }
}

const HEAD = `${encodeLine({ type: 'head', version: '1' })}\n`

test('a recording returns its lines by section, and does not overwrite a file', async () => {
  const { path, recorded } = await made([HEAD, '{"type":"request"}\n', '{"type":"open"}\n'])
  const { head, lines, isCut } = openRecord(path)
  expect(head).toEqual({ type: 'head', version: '1' })
  expect([...lines]).toEqual([{ type: 'request' }, { type: 'open' }])
  expect(isCut()).toBe(false)
  expect(recorded.bytes).toBe(readFileSync(path).length)
  await expect(
    openRecorder({ path, maxBytes: 1, maxMs: 1_000, onFull() {} }),
  ).rejects.toMatchObject({ code: 'EEXIST' })
})

test('everything before a cut or a damaged byte is read', async () => {
  const many = Array.from({ length: 5 }, (_, at) => `${encodeLine({ type: 'x', at })}\n`)
  const { path } = await made([HEAD, ...many])
  const full = readFileSync(path)
  const ends: number[] = []
  const sections = readSections(path)
  for (let next = sections.next(); next.done !== true; next = sections.next())
    ends.push(next.value.end)
  const check = (content: Uint8Array) => {
    const other = fresh()
    writeFileSync(other, content)
    const { lines, isCut } = openRecord(other)
    return { count: [...lines].length, isCut: isCut() }
  }
  const linesUpTo = (at: number) => {
    const retained = fresh()
    writeFileSync(
      retained,
      full.subarray(
        0,
        ends.findLast((end) => end <= at),
      ),
    )
    return [...openRecord(retained).lines].length
  }
  for (let at = ends[0]!; at < full.length; at++) {
    const isComplete = ends.includes(at)
    expect(check(full.subarray(0, at))).toEqual({ count: linesUpTo(at), isCut: !isComplete })
    const spoilt = Buffer.from(full)
    spoilt[at] = spoilt[at]! ^ 1
    expect(check(spoilt)).toEqual({ count: linesUpTo(at), isCut: true })
  }
})
test('a recording ends before its size limit', async () => {
  const { full, recorded, path } = await made([HEAD, `{"type":"x","x":"${'y'.repeat(99)}"}\n`], 120)
  expect(full).toEqual(['bytes'])
  expect(recorded.bytes).toBeLessThanOrEqual(120)
  expect([...openRecord(path).lines]).toEqual([])
})

test.each([
  ['empty', '', 'is not a recording'],
  ['other', 'x'.repeat(100), 'is not a recording'],
])('a file that is %s is refused', (_, content, message) => {
  const path = fresh()
  writeFileSync(path, content)
  expect(() => openRecord(path)).toThrow(RecordError)
  expect(() => openRecord(path)).toThrow(message)
})
