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

/** Milliseconds after which the node has started. */
const PROCESS_AFTER_MS = 3_000

/** Adds the metrics of the process after the start, or when they are asked for before. */
export function collectLater(registry: Registry): () => Registry {
  let isWhole = false
  const whole = () => {
    if (!isWhole) collectProcess(registry)
    isWhole = true
    return registry
  }
  const prepare = () => {
    if (isWhole) return
    prepareProcess()
    setTimeout(whole, PROCESS_AFTER_MS).unref()
  }
  setTimeout(prepare, PROCESS_AFTER_MS).unref()
  return whole
}

/** 15 of the 22 ms that {@link collectProcess} would take alone (2026-11): what is asked for between the two does not wait for both. */
function prepareProcess(): void {
  load('prom-client/lib/metrics/processCpuTotal')
}
/** Of the process: processor time, memory, descriptors, collections, the event loop. */
function collectProcess(register: Registry): void {
  const collect = load('prom-client/lib/defaultMetrics') as typeof library.collectDefaultMetrics
  collect({ register })
}
