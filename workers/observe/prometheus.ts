/**
 * Loads prom-client module by module. Its index also loads the process metrics and all of
 * OpenTelemetry's API: 80 modules that a start does not need.
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

/** Adds the metrics of the process after the start, or at their first request. */
export function collectLater(registry: Registry): () => Registry {
  let isCollecting = false
  const withProcess = () => {
    if (!isCollecting) collectProcess(registry)
    isCollecting = true
    return registry
  }
  const prepare = () => {
    if (isCollecting) return
    prepareProcess()
    setTimeout(withProcess, PROCESS_AFTER_MS).unref()
  }
  setTimeout(prepare, PROCESS_AFTER_MS).unref()
  return withProcess
}

/**
 * Loads modules first, 15 of the 22 ms of {@link collectProcess} (2026-11), so that requests
 * between both steps wait less.
 */
function prepareProcess(): void {
  load('prom-client/lib/metrics/processCpuTotal')
}
/**
 * Adds metrics of the process: processor time, memory, descriptors, collections, the event loop.
 */
function collectProcess(register: Registry): void {
  const collect = load('prom-client/lib/defaultMetrics') as typeof library.collectDefaultMetrics
  collect({ register })
}
