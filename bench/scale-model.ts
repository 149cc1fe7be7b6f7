/**
 * Computes which part is full first if many replicas serve many requests. It uses measured costs
 * (bench/scale/costs.ts) and measures nothing; unmeasured values are marked.
 * Usage: npm run bench:scale-model -- [--replicas 100] [--rate 1000000, requests a second]
 * [--cores 4, of a replica] [--front-threads 1] [--balancers 4] [--balancer-cores 8]
 * [--network 10, Gbit/s of the node whose feed they read] [--limit-store redis or memory]
 * [--flashblocks 5, a second]
 */
import { parseArgs } from 'node:util'
import { COSTS, costsOf, type Measurement, MIX, REQUEST_MICROS } from './scale/costs.ts'
import { type Installation, meanMicros, partsOf, readerBits, waits } from './scale/model.ts'

const { values } = parseArgs({
  options: {
    replicas: { type: 'string', default: '100' },
    rate: { type: 'string', default: '1000000' },
    cores: { type: 'string', default: '4' },
    'front-threads': { type: 'string', default: '1' },
    balancers: { type: 'string', default: '4' },
    'balancer-cores': { type: 'string', default: '8' },
    network: { type: 'string', default: '10' },
    'limit-store': { type: 'string', default: 'redis' },
    flashblocks: { type: 'string', default: '5' },
  },
})
const installation: Installation = {
  requestsPerSecond: Number(values.rate),
  replicas: Number(values.replicas),
  flashblocksPerSecond: Number(values.flashblocks),
  cores: Number(values.cores),
  frontThreads: Number(values['front-threads']),
  balancers: Number(values.balancers),
  balancerCores: Number(values['balancer-cores']),
  networkBits: Number(values.network) * 1e9,
  limitStore: values['limit-store'] === 'memory' ? 'memory' : 'redis',
}

const round = (value: number) => Number(value.toPrecision(3)).toLocaleString('en-US')
const said = (value: number) => (Number.isFinite(value) ? round(value) : '–')

const { requestsPerSecond: rate, replicas, cores } = installation
const requestMicros = meanMicros(MIX)
const costs = costsOf()
const parts = partsOf(installation, costs, MIX)
console.log(`${replicas} replicas, ${round(rate)} requests/s, ${round(requestMicros)} µs each\n`)
console.table(
  Object.fromEntries(
    parts.map(({ name, used, there, unit, fullAt }) => [
      name,
      {
        used: `${round(used)} ${unit}`,
        there: `${round(there)} ${unit}`,
        'full to %': round((100 * used) / there),
        'full at requests/s': said(fullAt),
      },
    ]),
  ),
)
const { meanMs, p95Ms } = waits(rate / replicas, requestMicros / 1_000, cores - 1)
const readers = Math.floor(installation.networkBits / readerBits(installation, costs))
console.log(`the network of a feed is full with ${round(readers)} replicas that read it`)
console.log(
  Number.isFinite(meanMs)
    ? `a request waits for one of ${cores - 1} workers: mean ${round(meanMs)} ms, 95 % within ${round(p95Ms)} ms\n`
    : `more comes than ${cores - 1} workers do: requests wait without end\n`,
)
const origin = ({ measured }: Measurement) => measured?.command ?? 'not measured here'
console.table(
  Object.fromEntries(
    Object.entries({ ...REQUEST_MICROS, ...COSTS }).map(([name, measurement]) => [
      name,
      { value: round(measurement.value), from: origin(measurement) },
    ]),
  ),
)
