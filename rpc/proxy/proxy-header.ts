/**
 * Parses the header of the PROXY protocol, version 2. A proxy sends it before a connection's first
 * byte and names the client (https://www.haproxy.org/download/2.6/doc/proxy-protocol.txt, section
 * 2.2).
 */

export type ProxyFault = 'missing' | 'version 1' | 'malformed' | 'too long' | 'checksum'
export type ProxyHeader =
  /** The header is incomplete. */
  | 'more'
  | { readonly fault: ProxyFault }
  | {
      /** Length of the header in bytes. */
      readonly end: number
      /**
       * Client address; undefined for the proxy's own connections (health checks) and for unknown
       * clients.
       */
      readonly source: { readonly address: string; readonly port: number } | undefined
    }

const SIGNATURE = Uint8Array.of(
  ...[0x0d, 0x0a, 0x0d, 0x0a, 0x00, 0x0d, 0x0a, 0x51, 0x55, 0x49, 0x54, 0x0a],
)
const VERSION_1 = new TextEncoder().encode('PROXY ')
const FIXED_BYTES = 16
/** Smallest segment that every host accepts; a header must fit into it (section 2). */
const MAX_BYTES = 536

const VERSION_2 = 2
const LOCAL = 0
const PROXY = 1
const UNSPECIFIED = 0
const INET = 1
const INET6 = 2
const UNIX = 3
const STREAM = 1
const DATAGRAM = 2
/** Bytes of both addresses and ports, by family. */
const ADDRESS_BYTES = [0, 12, 36, 216] as const
const CRC32C = 0x03

/**
 * Parses a header. The result does not depend on how the bytes were split.
 * @param bytes all bytes of the connection so far
 */
export function readProxyHeader(bytes: Buffer): ProxyHeader {
  if (!startsWithBytes(bytes, SIGNATURE)) {
    if (!startsWithBytes(bytes, VERSION_1)) return { fault: 'missing' }
    return bytes.length < VERSION_1.length ? 'more' : { fault: 'version 1' }
  }
  if (bytes.length < FIXED_BYTES) return 'more'
  const command = bytes[12]! & 15
  if (bytes[12]! >> 4 !== VERSION_2 || command > PROXY) return { fault: 'malformed' }
  const end = FIXED_BYTES + bytes.readUInt16BE(14)
  if (end > MAX_BYTES) return { fault: 'too long' }
  if (bytes.length < end) return 'more'
  // All other parts are ignored, the family included.
  if (command === LOCAL) return { end, source: undefined }
  return readBlock(bytes.subarray(0, end))
}

/** Tells whether one is a prefix of the other. */
function startsWithBytes(bytes: Uint8Array, expected: Uint8Array): boolean {
  const length = Math.min(bytes.length, expected.length)
  for (let at = 0; at < length; at++) if (bytes[at] !== expected[at]) return false
  return true
}

function readBlock(header: Buffer): ProxyHeader {
  const family = header[13]! >> 4
  const transport = header[13]! & 15
  if (family > UNIX || transport > DATAGRAM) return { fault: 'malformed' }
  const end = header.length
  // The length of the addresses is unknown, so nothing after them can be read.
  if (family === UNSPECIFIED || transport === UNSPECIFIED) return { end, source: undefined }
  const tlvs = FIXED_BYTES + ADDRESS_BYTES[family]!
  if (tlvs > end) return { fault: 'malformed' }
  const fault = faultOfTlvs(header, tlvs)
  if (fault !== undefined) return { fault }
  return { end, source: transport === STREAM ? sourceOf(header, family) : undefined }
}

function sourceOf(header: Buffer, family: number) {
  const at = FIXED_BYTES
  if (family === INET)
    return { address: header.subarray(at, at + 4).join('.'), port: header.readUInt16BE(at + 8) }
  if (family !== INET6) return undefined
  const groups = Array.from({ length: 8 }, (_, index) => header.readUInt16BE(at + 2 * index))
  const address = groups.map((group) => group.toString(16)).join(':')
  return { address, port: header.readUInt16BE(at + 32) }
}

/** Checks the TLVs: all are skipped except the checksum, which must be correct if present. */
function faultOfTlvs(header: Buffer, start: number): ProxyFault | undefined {
  for (let at = start; at < header.length; ) {
    if (at + 3 > header.length) return 'malformed'
    const value = at + 3
    const next = value + header.readUInt16BE(at + 1)
    if (next > header.length) return 'malformed'
    if (header[at] === CRC32C) {
      if (next - value !== 4) return 'malformed'
      if (crc32c(header, value) !== header.readUInt32BE(value)) return 'checksum'
    }
    at = next
  }
  return undefined
}

/**
 * CRC-32C of RFC 4960, appendix B. It works bit by bit, because proxies rarely send a checksum.
 * @param hole offset of four bytes that count as 0
 */
function crc32c(bytes: Uint8Array, hole: number): number {
  let crc = 0xffff_ffff
  for (const [at, byte] of bytes.entries()) {
    crc ^= at >= hole && at < hole + 4 ? 0 : byte
    for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (0x82f6_3b78 & -(crc & 1))
  }
  return ~crc >>> 0
}
