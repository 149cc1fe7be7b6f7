/** How the fast engine goes through code. Apart from the engine: reading a command line loads none of it. */

/** What runs again on its translation, all on its bytes, all translated. The first is the default. */
export const ENGINE_TIERS = ['auto', 'precise', 'stream'] as const
export type EngineTier = (typeof ENGINE_TIERS)[number]
