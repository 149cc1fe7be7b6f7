/** muxTracer: several tracers in one run, each with its result under its name. */
import type { TraceSink } from '../evm/engine.ts'
import { stringText } from './json.ts'
import type { TraceContext, Tracer } from './types.ts'

export function muxTracer(
  tracers: readonly (readonly [name: string, tracer: Tracer])[],
  { output }: TraceContext,
): Tracer {
  const all = tracers.map(([, tracer]) => tracer)
  return {
    sink: {
      ...fanOut(all, 'enter'),
      ...fanOut(all, 'exit'),
      ...fanOut(all, 'step'),
      ...fanOut(all, 'touch'),
      ...fanOut(all, 'log'),
    },
    start(scene) {
      for (const tracer of all) tracer.start?.(scene)
    },
    end(gasUsed) {
      for (const tracer of all) tracer.end?.(gasUsed)
    },
    writeResult() {
      output.write('{')
      for (const [index, [name, tracer]] of tracers.entries()) {
        output.write(`${index === 0 ? '' : ','}${stringText(name)}:`)
        tracer.writeResult()
      }
      output.write('}')
    },
  }
}

/** Makes a hook that calls all tracers' hooks; none if no tracer has the hook. */
function fanOut(tracers: readonly Tracer[], name: Exclude<keyof TraceSink, 'stepText'>): TraceSink {
  const hooks = tracers.flatMap(({ sink }) => {
    const hook = sink[name]
    return hook === undefined ? [] : [hook.bind(sink) as (...all: unknown[]) => void]
  })
  if (hooks.length === 0) return {}
  return {
    [name]: (...all: unknown[]) => {
      for (const hook of hooks) hook(...all)
    },
  }
}
