/**
 * prom-client, part by part. Its index loads the metrics of the process too, and with them all of OpenTelemetry's API: 80 modules that nothing
 * asks for until the node is ready.
 */
import { createRequire } from 'node:module'
import type * as library from 'prom-client'

const load = createRequire(import.meta.url)

export const Counter = load('prom-client/lib/counter') as typeof library.Counter
export type Counter<Label extends string = string> = library.Counter<Label>
export const Gauge = load('prom-client/lib/gauge') as typeof library.Gauge
export type Gauge<Label extends string = string> = library.Gauge<Label>
export const Histogram = load('prom-client/lib/histogram') as typeof library.Histogram
export type Histogram<Label extends string = string> = library.Histogram<Label>
export const Registry = load('prom-client/lib/registry') as typeof library.Registry
export type Registry = library.Registry

/** Of the process: processor time, memory, descriptors, collections, the event loop. Takes some 40 ms. */
export function collectProcess(register: Registry): void {
  const { collectDefaultMetrics } = load('prom-client') as typeof library
  collectDefaultMetrics({ register })
}
