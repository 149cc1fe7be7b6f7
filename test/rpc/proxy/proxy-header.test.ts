/** Headers of the PROXY protocol follow its specification, complete and in pieces. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { type ProxyHeader, readProxyHeader } from '../../../rpc/proxy/proxy-header.ts'

const SIGNATURE = '0d0a0d0a000d0a515549540a'
const PORTS = '3039d431'
const V4 = `c0000201c0000202${PORTS}`
const V6 = `20010db8000000000000000000000001${'00'.repeat(15)}01${PORTS}`
const UNIX = `${Buffer.from('/client').toString('hex').padEnd(216, '0')}${'00'.repeat(108)}`

/** Makes a header with its length; `block` is hex. */
const header = (command: string, family: string, block = '', length = block.length / 2) =>
  Buffer.from(
    `${SIGNATURE}${command}${family}${length.toString(16).padStart(4, '0')}${block}`,
    'hex',
  )
const tlv = (type: string, value: string) =>
  `${type}${(value.length / 2).toString(16).padStart(4, '0')}${value}`
const named = (block: string, address: string): ProxyHeader => ({
  end: 16 + block.length / 2,
  source: { address, port: 12_345 },
})
const unnamed = (block: string): ProxyHeader => ({ end: 16 + block.length / 2, source: undefined })
/** A checksum of four bytes follows. */
const CHECKED = `${V4}030004`

describe('a valid PROXY header', () => {
  const noop = tlv('04', '000000')
  const name = tlv('02', Buffer.from('rpc.example.org').toString('hex'))
  const longest = `${V4}${tlv('04', '00'.repeat(520 - 12 - 3))}`
  const cases: [name: string, bytes: Buffer, expected: ProxyHeader][] = [
    ['TCP over IPv4', header('21', '11', V4), named(V4, '192.0.2.1')],
    ['TCP over IPv6', header('21', '21', V6), named(V6, '2001:db8:0:0:0:0:0:1')],
    ['with TLVs', header('21', '11', V4 + noop + name), named(V4 + noop + name, '192.0.2.1')],
    ['the maximum length', header('21', '11', longest), named(longest, '192.0.2.1')],
    ['LOCAL without an address', header('20', '00'), unnamed('')],
    ['LOCAL with an address that is ignored', header('20', '11', V4), unnamed(V4)],
    ['LOCAL with an unknown family', header('20', 'ff', 'abcd'), unnamed('abcd')],
    ['PROXY of an unknown client', header('21', '00', 'abcdef'), unnamed('abcdef')],
    ['a family without a transport', header('21', '10', 'ab'), unnamed('ab')],
    ['UDP over IPv4', header('21', '12', V4), unnamed(V4)],
    ['a UNIX socket', header('21', '31', UNIX), unnamed(UNIX)],
  ]
  test.each(cases)('is read, also with more data behind it: %s', (_name, bytes, expected) => {
    expect(readProxyHeader(bytes)).toEqual(expected)
    expect(readProxyHeader(Buffer.concat([bytes, Buffer.from('GET / HTTP/1.1')]))).toEqual(expected)
  })
})

describe('an invalid PROXY header', () => {
  const cut = tlv('04', '0000').slice(0, -2)
  const cases: [name: string, bytes: Buffer, fault: string][] = [
    ['a request instead of a header', Buffer.from('GET / HTTP/1.1\r\n'), 'missing'],
    ['a request that begins like version 1', Buffer.from('PRI * HTTP/2.0'), 'missing'],
    ['version 1', Buffer.from('PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n'), 'version 1'],
    [
      'a signature with another last byte',
      Buffer.from(`${SIGNATURE.slice(0, -2)}0b`, 'hex'),
      'missing',
    ],
    ['version 1 in binary form', header('11', '11', V4), 'malformed'],
    ['version 3', header('31', '11', V4), 'malformed'],
    ['an unknown command', header('22', '11', V4), 'malformed'],
    ['an unknown family', header('21', '41', V4), 'malformed'],
    ['an unknown transport', header('21', '13', V4), 'malformed'],
    ['too short for IPv4', header('21', '11', V4.slice(2)), 'malformed'],
    ['too short for IPv6', header('21', '21', V4), 'malformed'],
    ['one byte more than the maximum', header('21', '11', '', 521), 'too long'],
    ['LOCAL with 65,535 bytes', header('20', '00', '', 65_535), 'too long'],
    ['a TLV without its length', header('21', '11', `${V4}0400`), 'malformed'],
    ['a TLV beyond the end', header('21', '11', V4 + cut), 'malformed'],
    ['a checksum of two bytes', header('21', '11', V4 + tlv('03', '0000')), 'malformed'],
    ['a wrong checksum', header('21', '11', `${CHECKED}00000000`), 'checksum'],
  ]
  test.each(cases)('gives its fault: %s', (_name, bytes, fault) =>
    expect(readProxyHeader(bytes)).toEqual({ fault }),
  )
})

test('the checksum is the CRC32c of RFC 3720, B.4, and any changed byte fails', () => {
  const open = header('21', '11', `${CHECKED}00000000`)
  const right = Buffer.from(open)
  right.writeUInt32BE(referenceCrc(open), 16 + 15)
  expect(referenceCrc(new Uint8Array(32))).toBe(0x8a91_36aa)
  expect(readProxyHeader(right)).toMatchObject({ source: { address: '192.0.2.1' } })
  fc.assert(
    fc.property(fc.integer({ min: 16, max: 27 }), fc.integer({ min: 1, max: 255 }), (at, by) => {
      const wrong = Buffer.from(right)
      wrong[at]! ^= by
      expect(readProxyHeader(wrong)).toEqual({ fault: 'checksum' })
    }),
  )
})
/**
 * Computes the checksum by polynomial division from the other end, independently of the tested
 * code.
 */
function referenceCrc(bytes: Uint8Array): number {
  const reflect = (value: bigint, bits: number) => {
    let out = 0n
    for (let bit = 0; bit < bits; bit++)
      if ((value >> BigInt(bit)) & 1n) out |= 1n << BigInt(bits - 1 - bit)
    return out
  }
  let crc = 0xffff_ffffn
  for (const byte of bytes) {
    crc ^= reflect(BigInt(byte), 8) << 24n
    for (let bit = 0; bit < 8; bit++)
      crc = ((crc << 1n) ^ ((crc >> 31n) & 1n ? 0x1_1edc_6f41n : 0n)) & 0xffff_ffffn
  }
  return Number(reflect(crc, 32) ^ 0xffff_ffffn)
}

/** Reads the header like from a socket: with more and more bytes, until it is decided. */
function inPieces(bytes: Buffer, cuts: readonly number[]): ProxyHeader {
  for (const cut of [...cuts.toSorted((a, b) => a - b), bytes.length]) {
    const said = readProxyHeader(bytes.subarray(0, cut))
    if (said !== 'more') return said
  }
  return 'more'
}

test('a header in any pieces gives the same result, and no bytes throw', () => {
  const hex = fc.uint8Array({ maxLength: 600 }).map((bytes) => Buffer.from(bytes).toString('hex'))
  const of = (list: readonly string[]) => fc.constantFrom(...list)
  const some = fc.oneof(
    fc.uint8Array({ maxLength: 64 }).map((bytes) => Buffer.from(bytes)),
    fc
      .tuple(of(['20', '21', '22', '11']), of(['00', '11', '21', '31', '12', '41']), hex)
      .map(([command, family, block]) => header(command, family, block)),
    fc.tuple(of(['11', '21']), hex).map(([family, more]) => header('21', family, V6 + more)),
    of(['PROXY ', 'PROX', 'GET / HTTP/1.1\r\n']).map((text) => Buffer.from(text)),
  )
  fc.assert(
    fc.property(some, fc.array(fc.nat(700)), fc.nat(700), (bytes, cuts, end) => {
      const full = readProxyHeader(bytes)
      expect(inPieces(bytes, cuts)).toEqual(full)
      // The decision stays the same with more bytes.
      const started = readProxyHeader(bytes.subarray(0, end))
      if (started !== 'more') expect(started).toEqual(full)
    }),
    { numRuns: 1_000 },
  )
})
