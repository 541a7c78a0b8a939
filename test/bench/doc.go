// Package bench measures netclass against what runs beside it in the same run.
// Its library is a generator of passive BGP peers, as many as a large cluster
// has, in a few threads of one process.
package bench
