package main

import "netclass.dev/routing"

// readyURLs are those that the configuration's routers wait for.
func readyURLs(c *routing.Config) []string {
	var urls []string
	if c.BGP != nil {
		for i := range c.BGP.Upstreams {
			if url := c.BGP.Upstreams[i].Advertise.ReadyHTTP; url != "" {
				urls = append(urls, url)
			}
		}
	}
	return urls
}
