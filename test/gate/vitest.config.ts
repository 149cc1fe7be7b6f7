/**
 * This configuration runs the checks of the node from outside.
 * `vitest run --config test/gate/vitest.config.ts --project gate` runs those of the gate, and `-t
 * NAME` one of them.
 */
import { defineConfig } from 'vitest/config'
import { counts } from './counts.ts'

export default defineConfig({
  test: {
    projects: ['gate', 'gate-computed', 'full', 'full-computed', 'long'].map((name) => ({
      test: {
        name,
        include: [`test/gate/${name}.test.ts`],
        // Most steps wait for blocks half of their time, so that three at once use two cores.
        maxConcurrency: 3,
        experimental: { viteModuleRunner: false },
      },
    })),
    disableConsoleIntercept: true,
    reporters: ['default', counts],
  },
})
