/** Values of `--engine`. The file is separate so that reading a command line loads no engine. */

/** The first name is the default. */
export const ENGINE_NAMES = ['fast', 'reference'] as const
export type EngineName = (typeof ENGINE_NAMES)[number]
